#include "session_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "processes.h"
#include "session.h"

namespace int8tune {
namespace {

// A session takes one; when the last is taken, so many start beside each other. Each has a context on the GPU.
constexpr size_t kSpares = 3;
constexpr double kSpareStartLimitS = 10;
constexpr rlim_t kLargestLibrary = 64 << 20;
// Descriptors of a session's process, and where they are kept out of each other's way until they are these.
constexpr int kSocket = 3, kStarted = 4, kNext = 5, kAside = 6, kHighest = 256;

struct Order {
  double seconds;
  int64_t others_start;
};

void LimitTo(int limit, rlim_t value) {
  rlimit known;
  if (getrlimit(__rlimit_resource_t(limit), &known) != 0) return;
  value = known.rlim_max == RLIM_INFINITY ? value : std::min(value, known.rlim_max);
  known = {value, value};
  setrlimit(__rlimit_resource_t(limit), &known);
}

void Close(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

void Put(int descriptor, int place) {
  if (descriptor >= 0) dup2(descriptor, place);
  else close(place);
}

// What comes until the other side closes, or the time is over.
std::string ReadUntil(int in, double deadline) {
  std::string text;
  char chunk[4096];
  for (;;) {
    pollfd wait = {in, POLLIN, 0};
    int left_ms = int((deadline - Now()) * 1000);
    if (left_ms <= 0 || poll(&wait, 1, left_ms) <= 0) return text;
    ssize_t got = read(in, chunk, sizeof chunk);
    if (got <= 0) return text;
    text.append(chunk, size_t(got));
  }
}

}  // namespace

struct SessionProcesses::Beginning {
  int started = -1;  // what is closed when the device has started
  bool says_about = false;
};

SessionProcesses::SessionProcesses(SessionSettings settings, bool keeps_spares)
    : settings_(std::move(settings)), keeps_spares_(keeps_spares && settings_.gpu != kNoGpu) {}

std::string SessionProcesses::AboutGpu() {
  if (!StartSpares(1, true)) return "gpu_fault=no process left\n";
  std::string about = ReadUntil(started_, Now() + kSpareStartLimitS);
  if (about.empty() || !keeps_spares_) Keep({});
  return about.empty() ? "gpu_fault=CUDA crashed or did not start in time\n" : about;
}

// A process closes its sockets a moment before its parent learns that it has ended.
static bool HasEnded(const SessionProcess& process) {
  pollfd wait = {process.socket, POLLRDHUP, 0};
  return poll(&wait, 1, 0) == 1 && (wait.revents & (POLLHUP | POLLRDHUP | POLLERR));
}

SessionProcess SessionProcesses::Begin(double seconds) {
  if (AreStarting() && Now() > began_ + kSpareStartLimitS) Keep({});
  std::vector<int> alive;
  for (const SessionProcess& spare : spares_) {
    if (!HasEnded(spare)) alive.push_back(spare.pid);
  }
  Keep(alive);
  SessionProcess process;
  if (spares_.empty()) {
    process = Start({});
  } else {
    process = spares_.back();
    spares_.pop_back();
  }
  Order order = {seconds, 0};
  if (process.pid && keeps_spares_ && spares_.empty()) order.others_start = StartSpares(kSpares, false);
  if (process.pid) send(process.socket, &order, sizeof order, MSG_NOSIGNAL);
  return process;
}

void SessionProcesses::WaitUntilStarted(double limit_s) const {
  pollfd wait = {started_, 0, 0};
  if (started_ >= 0) poll(&wait, 1, int(limit_s * 1000));
}

bool SessionProcesses::AreStarting() const {
  pollfd wait = {started_, 0, 0};
  return !spares_.empty() && started_ >= 0 && poll(&wait, 1, 0) == 0;
}

std::vector<int> SessionProcesses::Spares() const {
  std::vector<int> pids;
  for (const SessionProcess& spare : spares_) pids.push_back(spare.pid);
  return pids;
}

void SessionProcesses::Keep(const std::vector<int>& pids) {
  std::vector<SessionProcess> kept;
  for (SessionProcess& spare : spares_) {
    if (std::find(pids.begin(), pids.end(), spare.pid) != pids.end()) {
      kept.push_back(spare);
      continue;
    }
    Kill(spare.pid);
    Close(spare.socket), Close(spare.errors);
  }
  spares_.swap(kept);
}

// A process that is forked now has the pipe of those that will start beside its session.
bool SessionProcesses::StartSpares(size_t count, bool says_about) {
  if (next_[0] < 0 && pipe2(next_, O_CLOEXEC) != 0) return false;
  Beginning beginning = {next_[1], says_about};
  Close(started_);
  started_ = next_[0];
  began_ = Now();
  if (pipe2(next_, O_CLOEXEC) != 0) next_[0] = next_[1] = -1;
  for (size_t index = 0; index < count; ++index) {
    SessionProcess spare = Start(beginning);
    if (spare.pid) spares_.push_back(spare);
  }
  Close(beginning.started);
  return !spares_.empty();
}

SessionProcess SessionProcesses::Start(const Beginning& beginning) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return {};
  SessionProcess process = {0, pair[0], int(syscall(SYS_memfd_create, "stderr", 1u))};
  int parent = getpid();
  int pid = fork();
  if (pid == 0) Live(beginning, pair[1], process.errors, parent);
  close(pair[1]);
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  if (pid > 0) process.pid = pid;
  else Close(process.socket), Close(process.errors);
  return process;
}

// The process's whole life. It has no descriptor of the agent's but its own socket.
void SessionProcesses::Live(const Beginning& beginning, int socket, int errors, int parent) {
  setsid();
  // TVM's own handler of a segmentation fault takes a third of a second to look for a backtrace.
  for (int number : {SIGSEGV, SIGABRT, SIGCHLD, SIGPIPE}) signal(number, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 1);
  dup2(errors >= 0 ? errors : null, 2);
  int aside[] = {fcntl(socket, F_DUPFD, kAside), fcntl(beginning.started, F_DUPFD, kAside), fcntl(next_[0], F_DUPFD, kAside)};
  for (int index = 0; index < 3; ++index) Put(aside[index], kSocket + index);
  for (int descriptor = kNext + 1; descriptor < kHighest; ++descriptor) close(descriptor);
  LimitTo(RLIMIT_CORE, 0);
  LimitTo(RLIMIT_FSIZE, kLargestLibrary);
  // CUDA reserves addresses for all the memory there is; what is really used the agent looks at.
  rlim_t page = rlim_t(sysconf(_SC_PAGESIZE)), used = rlim_t(atol(ReadAll("/proc/self/statm").c_str())) * page;
  if (settings_.gpu == kNoGpu) LimitTo(RLIMIT_AS, used + settings_.memory_bytes);
  int score = open("/proc/self/oom_score_adj", O_WRONLY);
  if (score >= 0 && write(score, "1000", 4) > 0) close(score);
  std::string about = BeginDevice(settings_.gpu);
  if (beginning.says_about && write(kStarted, about.data(), about.size()) < 0) _exit(1);
  close(kStarted);
  Order order;
  if (recv(kSocket, &order, sizeof order, MSG_WAITALL) != ssize_t(sizeof order)) _exit(0);
  LimitTo(RLIMIT_CPU, rlim_t(order.seconds * double(std::max<size_t>(settings_.cores, 64))) + 10);
  std::string work = settings_.folder + "/work";
  if (chdir(work.c_str()) != 0) _exit(1);
  if (!order.others_start) close(kNext);
  ServeSession(kSocket, settings_.folder + "/cases", work, order.others_start ? kNext : -1);
  _exit(1);
}

}  // namespace int8tune
