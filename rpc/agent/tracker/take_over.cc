// A library that a stock TVM RPC server loads in the process of a session: it puts the agent in that session's place.
//
// The host has uploaded the agent's files beside it, and an order: 64 characters, then a line `sha256 name` for each file. It
// calls `int8tune.take_over`, and sends those characters after the call: they tell which descriptor is the connection.
// From then on that is the agent's. It runs in a process of its own; this one waits for it, ends what is left, and exits
// with 0: of a session that ends in another way, a server never recovers.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <string>

#include "processes.h"
#include "sha256.h"

namespace int8tune {
namespace {

constexpr size_t kSignBytes = 64;
constexpr int kHighestDescriptor = 4096;
constexpr double kFindLimitS = 5;
constexpr double kEndLimitS = 3;
constexpr size_t kLongestTail = 200;
const char kName[] = "int8tune.take_over";

// Where this library and what was uploaded with it are.
std::string Folder() {
  static const char here = 0;
  Dl_info info = {};
  if (!dladdr(&here, &info) || !info.dli_fname) return "";
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

// What is wrong with the files that were uploaded, of which the order has a line each; empty if nothing is.
std::string Damage(const std::string& folder, const std::string& order) {
  for (size_t start = kSignBytes, end; start < order.size(); start = end) {
    end = order.find('\n', start + 1);
    if (end == std::string::npos) end = order.size();
    std::string line = order.substr(start + 1, end - start - 1);
    std::string expected = line.substr(0, line.find(' ')), name = line.substr(line.find(' ') + 1);
    std::string content = ReadAll(folder + "/" + name);
    Digest digest = Sha256Of(content.data(), content.size());
    if (Hex(digest.data(), digest.size()) != expected) {
      return name + " came in damaged, " + std::to_string(content.size()) + " bytes of it: is the disk full?";
    }
  }
  return chmod((folder + "/agent").c_str(), 0700) == 0 ? "" : std::string("agent: ") + strerror(errno);
}

// The descriptor on which the sign is what comes next, with the sign taken off; -1 if there is none.
int FindConnection(const std::string& sign) {
  char seen[kSignBytes];
  for (double deadline = Now() + kFindLimitS; Now() < deadline; usleep(1000)) {
    for (int descriptor = 3; descriptor < kHighestDescriptor; ++descriptor) {
      ssize_t got = recv(descriptor, seen, sizeof seen, MSG_PEEK | MSG_DONTWAIT);
      if (got != ssize_t(kSignBytes) || sign.compare(0, kSignBytes, seen, kSignBytes) != 0) continue;
      if (recv(descriptor, seen, sizeof seen, MSG_DONTWAIT) == ssize_t(kSignBytes)) return descriptor;
    }
  }
  return -1;
}

// The agent's own folder, and those that have a driver of NVIDIA's: of the caller's library path, and of containers.
std::string LibraryPath(const std::string& folder) {
  const char* given = getenv("LD_LIBRARY_PATH");
  std::string places = std::string(given ? given : "") + ":/usr/local/nvidia/lib64:/usr/local/nvidia/lib:", path = folder;
  size_t begin = 0;
  for (size_t end; (end = places.find(':', begin)) != std::string::npos; begin = end + 1) {
    std::string place = places.substr(begin, end - begin);
    if (place[0] == '/' && access((place + "/libcuda.so.1").c_str(), F_OK) == 0) path += ":" + place;
  }
  return path;
}

// As the launcher of a board that is reached by SSH: no more of the caller's environment, and no descriptor of its.
[[noreturn]] void BecomeAgent(const std::string& folder, int connection, int errors, int parent) {
  std::string mark = "INT8TUNE_AGENT=" + folder, libraries = "LD_LIBRARY_PATH=" + LibraryPath(folder), program = folder + "/agent";
  const char* environment[] = {mark.c_str(), libraries.c_str(), "PATH=/usr/local/bin:/usr/bin:/bin", nullptr};
  const char* arguments[] = {program.c_str(), folder.c_str(), nullptr};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setsid();
  umask(077);
  dup2(connection, 0);
  dup2(connection, 1);
  dup2(errors, 2);
  for (int descriptor = 3; descriptor < kHighestDescriptor; ++descriptor) close(descriptor);
  execve(program.c_str(), const_cast<char**>(arguments), const_cast<char**>(environment));
  dprintf(2, "%s\n", strerror(errno));
  _exit(127);
}

// In the form of an agent's message.
void Say(int connection, const std::string& why) {
  uint32_t length = uint32_t(why.size());
  std::string message = "x";
  message.append(reinterpret_cast<char*>(&length), sizeof length);
  message += why;
  send(connection, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The last words of an agent that has left none itself.
void SayHowItEnded(int connection, int errors, int status) {
  if (WIFSIGNALED(status)) return Say(connection, "killed by signal " + std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) < 126) return;
  char tail[kLongestTail] = {};
  ssize_t got = pread(errors, tail, sizeof tail, 0);
  Say(connection, "it can't be started: " + std::string(tail, size_t(got > 0 ? got : 0)));
}

// Returns only what went wrong.
std::string TakeOver() {
  std::string folder = Folder(), order = ReadAll(folder + "/order");
  if (order.size() < kSignBytes) return "the order did not come in: is the disk full?";
  std::string sign = order.substr(0, kSignBytes), damage = Damage(folder, order);
  if (!damage.empty()) return damage;
  int connection = FindConnection(sign);
  if (connection < 0) return "the connection can't be found";
  int errors = open((folder + "/errors").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGCHLD, SIG_DFL);
  // The host knows by this that what follows is no answer of the server's.
  send(connection, sign.data(), sign.size(), MSG_NOSIGNAL);
  int self = getpid(), agent = fork();
  if (agent == 0) BecomeAgent(folder, connection, errors, self);
  if (agent < 0) Say(connection, std::string("no process left: ") + strerror(errno));
  int status = 0;
  while (agent > 0 && waitpid(agent, &status, 0) < 0 && errno == EINTR) {
  }
  SayHowItEnded(connection, errors, status);
  EndChildren(kEndLimitS);
  _exit(0);
}

int Called(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  std::string why = TakeOver();
  TVMFFIByteArray bytes = {why.data(), why.size()};
  return TVMFFIBytesFromByteArray(&bytes, result);
}

__attribute__((constructor)) void Register() {
  TVMFFIObjectHandle function = nullptr;
  TVMFFIByteArray name = {kName, sizeof kName - 1};
  if (TVMFFIFunctionCreate(nullptr, Called, nullptr, &function) == 0) TVMFFIFunctionSetGlobal(&name, function, 1);
}

}  // namespace
}  // namespace int8tune
