// The board's agent: it speaks with one host over its standard streams, opens no port, and has a process per session.
//
// A message is a byte that says what it is, four bytes of length (little-endian), and that many bytes. Between `O` (open)
// and `e` (ended), the bytes of `D` and `d` are those of TVM's session protocol. The agent itself runs no kernel.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "machine.h"
#include "processes.h"
#include "session.h"
#include "session_process.h"
#include "sha256.h"

namespace int8tune {
namespace {

constexpr int kVersion = 1;
constexpr size_t kLongestMessage = 4 << 20;
constexpr size_t kMostToSession = 128 << 20;
constexpr size_t kMostToHost = 4 << 20;
constexpr size_t kChunk = 256 << 10;
constexpr size_t kLongestTail = 300;
constexpr double kHostSilenceS = 20;
constexpr double kEndLimitS = 3;
// The host waits 8 s for the end of a session.
constexpr double kStartLimitS = 4;
constexpr double kLongestSessionS = 86400;
// Beside what the agent itself has in memory: libraries and stacks, and what an emulator translates.
constexpr uint64_t kMemoryMargin = 32 << 20;
const char kMark[] = "INT8TUNE_AGENT=";

int child_ended[2];
bool adopts_orphans = false;  // QEMU's user mode, and Linux before 3.4, let nobody

void OnChild(int) {
  int saved = errno;
  ssize_t written = write(child_ended[1], "", 1);
  (void)written;
  errno = saved;
}

bool HasMark(const std::string& environment, const std::string& folder) {
  std::string end(1, '\0');
  return (end + environment).find(end + kMark + folder + end) != std::string::npos;
}

std::string EnvironmentOf(int pid) { return ReadAll("/proc/" + std::to_string(pid) + "/environ"); }

// Other processes that were started with the folder's mark, wherever they hang in the tree.
std::vector<int> Marked(const std::string& folder) {
  std::vector<int> marked;
  for (int pid : Processes()) {
    if (pid != getpid() && HasMark(EnvironmentOf(pid), folder)) marked.push_back(pid);
  }
  return marked;
}

// Ends them; how many are left. A process that was not listed before and ended before it was read may have had the mark,
// and a child that was not listed yet: a pass with one of these is followed by another.
int EndMarked(const std::string& folder, double limit_s) {
  double deadline = Now() + limit_s;
  std::vector<int> before;
  for (;; usleep(1000)) {
    int left = 0;
    std::vector<int> listed = Processes();
    for (int pid : listed) {
      if (pid == getpid()) continue;
      std::string environment = EnvironmentOf(pid);
      if (HasMark(environment, folder)) Kill(pid), ++left;
      else if (environment.empty() && std::find(before.begin(), before.end(), pid) == before.end()) ++left;
    }
    if (!left || Now() > deadline) return left;
    before.swap(listed);
  }
}

// Bytes that a process has in memory; 0 where it is gone. proc(5): statm's second number, in pages.
uint64_t ResidentBytes(int pid) {
  std::string statm = ReadAll("/proc/" + std::to_string(pid) + "/statm");
  size_t space = statm.find(' ');
  return space == std::string::npos ? 0 : strtoull(statm.c_str() + space, nullptr, 10) * uint64_t(sysconf(_SC_PAGESIZE));
}

// Whether a process can be held to an amount of memory. QEMU's user mode takes the limit and forgets it.
bool MemoryLimitHolds() {
  rlimit known, seen;
  if (getrlimit(RLIMIT_AS, &known) != 0) return false;
  rlimit tried = {std::min<rlim_t>(known.rlim_max, rlim_t(1) << 46) - 4096, known.rlim_max};
  bool holds = setrlimit(RLIMIT_AS, &tried) == 0 && getrlimit(RLIMIT_AS, &seen) == 0 && seen.rlim_cur == tried.rlim_cur;
  setrlimit(RLIMIT_AS, &known);
  return holds;
}

int RemoveEntry(const char* path, const struct stat*, int, FTW*) {
  remove(path);
  return 0;
}

void RemoveTree(const std::string& path) { nftw(path.c_str(), RemoveEntry, 16, FTW_DEPTH | FTW_PHYS); }

struct Settings {
  std::vector<int> cores;
  uint64_t memory_bytes = 512 << 20;
  uint64_t disk_bytes = 1 << 30;
  int gpu = kNoGpu;
};

struct Child : SessionProcess {
  explicit Child(SessionProcess process = {}) : SessionProcess(process) {}
  double deadline = 0;
  double look_at = 0;
  bool ended = false;
  int status = 0;
  std::string to_session;
};

class Agent {
 public:
  Agent(std::string folder, int in, int out) : folder_(std::move(folder)), in_(in), out_(out) {}

  int Serve();

 private:
  void Receive();
  void Handle(char kind, const std::string& body);
  void Greet(const std::string& body);
  void Open(const std::string& body);
  void Missing(const std::string& body);
  void Upload(const std::string& body);
  void MakeRoom(uint64_t needed);
  void FromSession();
  void ToSession();
  void LookAtMemory();
  int EndAllButSpares();
  void Forget(int pid);
  void EndSession(const std::string& how);
  void Say(char kind, const std::string& body);
  bool Flush();
  [[noreturn]] void Leave(const std::string& why);
  int TimeLeftMs() const;
  std::string HowItEnded(int status) const;

  std::string folder_;
  int in_, out_;
  std::string received_, to_host_;
  double heard_ = Now();
  bool greeted_ = false;
  Settings settings_;
  std::unique_ptr<SessionProcesses> processes_;
  Child child_;
  int sessions_ = 0;
  // Looks take time of the measuring core: most sessions are over before the first one, where it may come late.
  const double look_every_s_ = MemoryLimitHolds() ? 1.0 : 0.1;
  std::string part_;
};

std::map<std::string, std::string> Pairs(const std::string& text) {
  std::map<std::string, std::string> pairs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t equals = line.find('=');
    if (equals != std::string::npos) pairs[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return pairs;
}

int Agent::Serve() {
  for (;;) {
    pollfd waits[4] = {{in_, POLLIN, 0}, {out_, 0, 0}, {child_ended[0], POLLIN, 0}, {child_.socket, 0, 0}};
    if (!to_host_.empty()) waits[1].events |= POLLOUT;
    if (to_host_.size() < kMostToHost) waits[3].events |= POLLIN;
    if (!child_.to_session.empty()) waits[3].events |= POLLOUT;
    if (poll(waits, 4, TimeLeftMs()) < 0 && errno != EINTR) Leave("poll failed");
    if (waits[0].revents) Receive();
    if (waits[1].revents & (POLLERR | POLLHUP)) Leave("");
    if (waits[2].revents) {
      char seen[64];
      while (read(child_ended[0], seen, sizeof seen) > 0) {
      }
      int pid, status;
      while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == child_.pid) child_.ended = true, child_.status = status;
        Forget(pid);
      }
    }
    if (child_.pid && (waits[3].revents & (POLLIN | POLLHUP | POLLERR))) FromSession();
    if (child_.pid && child_.ended) {
      FromSession();
      if (child_.pid) EndSession(HowItEnded(child_.status));
    }
    if (child_.pid && (waits[3].revents & POLLOUT)) ToSession();
    if (child_.pid && Now() > child_.deadline) EndSession("deadline");
    if (child_.pid && Now() > child_.look_at) LookAtMemory();
    if (!Flush()) Leave("");
    if (Now() - heard_ > kHostSilenceS) Leave("the host was silent");
  }
}

int Agent::TimeLeftMs() const {
  double until = heard_ + kHostSilenceS;
  if (child_.pid) until = std::min({until, child_.deadline, child_.look_at});
  return int(std::max(0.0, std::min((until - Now()) * 1000 + 1, 60000.0)));
}

void Agent::Receive() {
  char chunk[1 << 16];
  ssize_t got = read(in_, chunk, sizeof chunk);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) Leave("");
  heard_ = Now();
  received_.append(chunk, size_t(got));
  size_t place = 0;
  while (received_.size() - place >= 5) {
    uint32_t length;
    memcpy(&length, received_.data() + place + 1, sizeof length);
    if (length > kLongestMessage) Leave("a message is too long");
    if (received_.size() - place - 5 < length) break;
    char kind = received_[place];
    std::string body = received_.substr(place + 5, length);
    place += 5 + length;
    Handle(kind, body);
  }
  received_.erase(0, place);
}

void Agent::Handle(char kind, const std::string& body) {
  if (!greeted_ && kind != 'H') Leave("the first message must be a greeting");
  switch (kind) {
    case 'H':
      return Greet(body);
    case 'P':
      return Say('p', body);
    case 'I':
      return Say('i', StateOfMachine(folder_));
    case 'O':
      return Open(body);
    case 'D':
      if (child_.pid) child_.to_session += body;
      if (child_.to_session.size() > kMostToSession) EndSession("too much was sent");
      if (child_.pid) ToSession();
      return;
    case 'C':
      if (child_.pid) EndSession("closed");
      return;
    case 'Q':
      return Missing(body);
    case 'U':
      return Upload(body);
    default:
      Leave("unknown message");
  }
}

void Agent::Greet(const std::string& body) {
  auto pairs = Pairs(body);
  if (atoi(pairs["version"].c_str()) != kVersion) Leave("the agent is of version " + std::to_string(kVersion));
  std::istringstream cores(pairs["cores"]);
  for (std::string core; std::getline(cores, core, ',');) settings_.cores.push_back(atoi(core.c_str()));
  if (!settings_.cores.empty()) {
    for (int core : settings_.cores) {  // a set of cores is taken if one of them exists
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      if (sched_setaffinity(0, sizeof one, &one) != 0) Leave("core can't be used here: " + std::to_string(core));
    }
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int core : settings_.cores) CPU_SET(core, &all);
    sched_setaffinity(0, sizeof all, &all);
  }
  setenv("TVM_NUM_THREADS", pairs["threads"].empty() ? "1" : pairs["threads"].c_str(), 1);
  setenv("TVM_BIND_THREADS", "0", 1);  // TVM would bind its threads to cores of its own choice
  settings_.memory_bytes = strtoull(pairs["memory_bytes"].c_str(), nullptr, 10);
  settings_.disk_bytes = strtoull(pairs["disk_bytes"].c_str(), nullptr, 10);
  if (!pairs["gpu"].empty()) settings_.gpu = atoi(pairs["gpu"].c_str());
  greeted_ = true;
  SessionSettings settings = {folder_, settings_.cores.size(), settings_.memory_bytes, settings_.gpu};
  processes_ = std::make_unique<SessionProcesses>(settings, adopts_orphans);
  Say('h', "version=" + std::to_string(kVersion) + "\npid=" + std::to_string(getpid()) + "\nbundle=" +
               FirstLine(folder_ + "/bundle") + "\n" + AboutMachine() + StateOfMachine(folder_) +
               (settings_.gpu == kNoGpu ? "" : processes_->AboutGpu()));
}

void Agent::Open(const std::string& body) {
  if (child_.pid) Leave("a session is open already");
  auto pairs = Pairs(body);
  double seconds = std::min(atof(pairs["run_ms"].c_str()) / 1000, kLongestSessionS);
  std::string work = folder_ + "/work";
  RemoveTree(work);
  mkdir(work.c_str(), 0700);
  child_ = Child(processes_->Begin(seconds));
  if (!child_.pid) Leave("no process left");
  child_.deadline = Now() + seconds;
  child_.look_at = Now() + look_every_s_;
  ++sessions_;
}

void Agent::FromSession() {
  std::string chunk(kChunk, '\0');
  for (;;) {
    ssize_t got = recv(child_.socket, &chunk[0], chunk.size(), MSG_DONTWAIT);
    if (got > 0) {
      Say('d', chunk.substr(0, size_t(got)));
      if (to_host_.size() >= kMostToHost) return;
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // How it ended is known a moment after its socket is closed.
    int status = 0;
    for (int waited = 0; waited < 1000 && !child_.ended; ++waited) {
      if (waitpid(child_.pid, &status, WNOHANG) == child_.pid) child_.ended = true, child_.status = status;
      if (!child_.ended) usleep(1000);
    }
    return EndSession(child_.ended ? HowItEnded(child_.status) : "closed its connection");
  }
}

void Agent::ToSession() {
  while (!child_.to_session.empty()) {
    ssize_t sent = send(child_.socket, child_.to_session.data(), child_.to_session.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) return;
    child_.to_session.erase(0, size_t(sent));
  }
}

std::string Agent::HowItEnded(int status) const {
  if (WIFEXITED(status)) return "exited " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));
}

// The kernel's limit counts each process for itself. Here all of a session's count, beyond what the agent has itself.
void Agent::LookAtMemory() {
  uint64_t used = 0, own = ResidentBytes(getpid());
  std::vector<int> spares = processes_->Spares();
  for (int pid : Marked(folder_)) {
    if (std::find(spares.begin(), spares.end(), pid) != spares.end()) continue;
    used += std::max(ResidentBytes(pid), own) - own;
  }
  child_.look_at = Now() + look_every_s_;
  if (used <= settings_.memory_bytes + kMemoryMargin) return;
  EndSession("used more than its " + std::to_string(settings_.memory_bytes >> 20) + " MiB of memory");
}

// Ends the session and all that it started, good or not, and says how it ended.
void Agent::EndSession(const std::string& how) {
  Kill(child_.pid);
  int left = EndAllButSpares();
  processes_->WaitUntilStarted(kStartLimitS);
  if (!adopts_orphans) left += EndMarked(folder_, kEndLimitS);
  std::string tail;
  if (child_.errors >= 0) {
    struct stat status;
    fstat(child_.errors, &status);
    off_t start = std::max<off_t>(0, status.st_size - off_t(kLongestTail));
    tail.resize(size_t(status.st_size - start));
    ssize_t got = pread(child_.errors, &tail[0], tail.size(), start);
    tail.resize(size_t(std::max<ssize_t>(got, 0)));
    close(child_.errors);
  }
  close(child_.socket);
  child_ = Child();
  RemoveTree(folder_ + "/work");
  Say('e', "how=" + how + "\nleft=" + std::to_string(left) + "\n\n" + tail);
  if (left) Leave("a process of a session could not be ended");
}

int Agent::EndAllButSpares() {
  std::vector<int> spares = processes_->Spares();
  int left = EndChildren(kEndLimitS, &spares);
  processes_->Keep(spares);
  return left;
}

void Agent::Forget(int pid) {
  std::vector<int> spares = processes_ ? processes_->Spares() : std::vector<int>();
  auto place = std::find(spares.begin(), spares.end(), pid);
  if (place == spares.end()) return;
  spares.erase(place);
  processes_->Keep(spares);
}

// The digests of those cases that are not here; a file that was changed since it was written is removed.
void Agent::Missing(const std::string& body) {
  std::string missing;
  for (size_t place = 0; place + 32 <= body.size(); place += 32) {
    std::string digest = body.substr(place, 32);
    std::string path = folder_ + "/cases/" + Hex(reinterpret_cast<const uint8_t*>(digest.data()), 32);
    std::string content = ReadAll(path);
    Digest actual = Sha256Of(content.data(), content.size());
    if (!content.empty() && memcmp(actual.data(), digest.data(), 32) == 0) {
      utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
      continue;
    }
    unlink(path.c_str());
    missing += digest;
  }
  Say('q', missing);
}

// A piece of a case: its digest, its whole size, and bytes that follow those sent before.
void Agent::Upload(const std::string& body) {
  if (body.size() < 40) Leave("a case can't be understood");
  std::string digest = body.substr(0, 32);
  uint64_t total;
  memcpy(&total, body.data() + 32, sizeof total);
  if (total > settings_.disk_bytes) Leave("a case is larger than the board's limit");
  part_.append(body, 40, std::string::npos);
  if (part_.size() < total) return;
  std::string content;
  content.swap(part_);
  std::string answer = "\1the case was damaged on its way";
  Digest actual = Sha256Of(content.data(), content.size());
  if (content.size() == total && memcmp(actual.data(), digest.data(), 32) == 0) {
    MakeRoom(total);
    std::string path = folder_ + "/cases/" + Hex(actual.data(), 32), part = folder_ + "/cases/part";
    unlink(part.c_str());
    int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0400);
    size_t done = 0;
    while (file >= 0 && done < content.size()) {
      ssize_t written = write(file, content.data() + done, content.size() - done);
      if (written <= 0) break;
      done += size_t(written);
    }
    int why = errno;
    if (file >= 0 && close(file) == 0 && done == content.size() && rename(part.c_str(), path.c_str()) == 0) {
      answer = std::string(1, '\0');
    } else {
      unlink(part.c_str());
      answer = std::string("\1a case can't be written: ") + strerror(why);
    }
  }
  Say('u', answer);
}

// Removes the cases that were used least recently until so many bytes fit.
void Agent::MakeRoom(uint64_t needed) {
  std::vector<std::pair<double, std::pair<std::string, uint64_t>>> files;
  uint64_t used = needed;
  std::string cases = folder_ + "/cases";
  DIR* folder = opendir(cases.c_str());
  if (!folder) return;
  while (dirent* entry = readdir(folder)) {
    struct stat status;
    std::string path = cases + "/" + entry->d_name;
    if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    used += uint64_t(status.st_size);
    double when = double(status.st_mtim.tv_sec) + 1e-9 * double(status.st_mtim.tv_nsec);
    files.push_back({when, {path, uint64_t(status.st_size)}});
  }
  closedir(folder);
  std::sort(files.begin(), files.end());
  for (size_t index = 0; index < files.size() && used > settings_.disk_bytes; ++index) {
    unlink(files[index].second.first.c_str());
    used -= files[index].second.second;
  }
}

void Agent::Say(char kind, const std::string& body) {
  uint32_t length = uint32_t(body.size());
  to_host_ += kind;
  to_host_.append(reinterpret_cast<char*>(&length), sizeof length);
  to_host_ += body;
}

bool Agent::Flush() {
  while (!to_host_.empty()) {
    ssize_t written = write(out_, to_host_.data(), to_host_.size());
    if (written < 0) return errno == EAGAIN || errno == EINTR;
    to_host_.erase(0, size_t(written));
  }
  return true;
}

void Agent::Leave(const std::string& why) {
  if (child_.pid) Kill(child_.pid);
  EndChildren(kEndLimitS);
  if (!adopts_orphans) EndMarked(folder_, kEndLimitS);
  RemoveTree(folder_ + "/work");
  if (!why.empty()) {
    Say('x', why);
    Flush();
  }
  _exit(why.empty() ? 0 : 1);
}

// One agent per folder. One that is stopped will never answer anybody: it is ended.
bool Lock(const std::string& folder) {
  std::string path = folder + "/lock";
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  for (double deadline = Now() + 2; flock(file, LOCK_EX | LOCK_NB) != 0; usleep(20000)) {
    int owner = atoi(FirstLine(path).c_str());
    std::string stat = ReadAll("/proc/" + std::to_string(owner) + "/stat");
    size_t bracket = stat.rfind(')');
    if (owner > 1 && bracket != std::string::npos && bracket + 2 < stat.size() && stat[bracket + 2] == 'T') {
      kill(owner, SIGKILL);
    }
    if (Now() > deadline) return false;
  }
  // Who it is helps the next one. A disk may have no room for it, and no more than that depends on it.
  std::string pid = std::to_string(getpid()) + "\n";
  if (pwrite(file, pid.data(), pid.size(), 0) != ssize_t(pid.size()) || ftruncate(file, off_t(pid.size())) != 0) {
    (void)!ftruncate(file, 0);
  }
  return true;
}

void Refuse(int out, const std::string& why) {
  uint32_t length = uint32_t(why.size());
  std::string message = "x";
  message.append(reinterpret_cast<char*>(&length), sizeof length);
  message += why;
  ssize_t written = write(out, message.data(), message.size());
  (void)written;
  _exit(1);
}

// Keeps the streams to the host where no kernel and no library finds them.
int MoveAway(int descriptor) {
  int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, descriptor);
  close(null);
  return moved;
}

}  // namespace
}  // namespace int8tune

int main(int count, char** arguments) {
  using namespace int8tune;
  if (count != 2) {
    fprintf(stderr, "usage: agent FOLDER, or agent --about\n");
    return 2;
  }
  if (strcmp(arguments[1], "--about") == 0) {
    std::string about = AboutMachine();
    fwrite(about.data(), 1, about.size(), stdout);
    return 0;
  }
  int in = MoveAway(0), out = MoveAway(1);
  std::string folder = arguments[1];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  adopts_orphans = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
  if (!Lock(folder)) Refuse(out, "another agent is at work here: process " + FirstLine(folder + "/lock"));
  EndMarked(folder, kEndLimitS);
  mkdir((folder + "/cases").c_str(), 0700);
  if (pipe2(child_ended, O_NONBLOCK | O_CLOEXEC) != 0) return 1;
  signal(SIGPIPE, SIG_IGN);
  struct sigaction action = {};
  action.sa_handler = OnChild;
  action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, nullptr);
  fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
  fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
  if (!RegisterFunctions()) Refuse(out, "TVM's runtime can't be used here");
  return Agent(folder, in, out).Serve();
}
