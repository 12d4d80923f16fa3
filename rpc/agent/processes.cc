#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace int8tune {

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

std::vector<int> Processes() {
  std::vector<int> pids;
  DIR* folder = opendir("/proc");
  if (!folder) return pids;
  while (dirent* entry = readdir(folder)) {
    if (int pid = atoi(entry->d_name)) pids.push_back(pid);
  }
  closedir(folder);
  return pids;
}

std::string ReadAll(const std::string& path) {
  std::string text;
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char chunk[4096];
  ssize_t got;
  while (file >= 0 && (got = read(file, chunk, sizeof chunk)) > 0) text.append(chunk, size_t(got));
  if (file >= 0) close(file);
  return text;
}

namespace {

constexpr double kDyingS = 0.01;

// proc(5): the state and the parent follow the command's name, which ends with the last bracket.
bool IsMyChild(int pid) {
  std::string stat = ReadAll("/proc/" + std::to_string(pid) + "/stat");
  size_t bracket = stat.rfind(')');
  return bracket != std::string::npos && bracket + 4 < stat.size() && atoi(stat.c_str() + bracket + 4) == getpid();
}

}  // namespace

void Kill(int pid) {
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
}

int EndChildren(double limit_s, std::vector<int>* kept) {
  std::vector<int> none;
  if (!kept) kept = &none;
  double began = Now(), deadline = began + limit_s;
  for (;;) {
    int pid;
    while ((pid = waitpid(-1, nullptr, WNOHANG)) > 0) kept->erase(std::remove(kept->begin(), kept->end(), pid), kept->end());
    if (pid < 0 && errno == ECHILD) return 0;
    if (kept->empty() && Now() < began + kDyingS) {  // a look at all processes takes longer than it takes a killed one to end
      usleep(200);
      continue;
    }
    int left = 0;
    for (int candidate : Processes()) {
      if (std::find(kept->begin(), kept->end(), candidate) != kept->end() || !IsMyChild(candidate)) continue;
      Kill(candidate), ++left;
    }
    if (!left && !kept->empty()) return 0;
    if (Now() > deadline) return std::max(left, 1);
    usleep(1000);
  }
}

}  // namespace int8tune
