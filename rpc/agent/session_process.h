// The processes of sessions. On a GPU some are started ahead of time: CUDA takes longer to start than many a kernel is
// measured. The agent itself never starts it, and each process serves one session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace int8tune {

struct SessionSettings {
  std::string folder;
  size_t cores = 0;
  uint64_t memory_bytes = 0;
  int gpu = -1;
};

struct SessionProcess {
  int pid = 0;
  int socket = -1;
  int errors = -1;
};

// CUDA starts while nothing is timed: while the agent is greeted, and in the part of a session before its first timing.
class SessionProcesses {
 public:
  // Without `keeps_spares`, each process is started when its session begins.
  SessionProcesses(SessionSettings settings, bool keeps_spares);

  // Lines `name=value` of the GPU, by the first spare; `gpu_fault=` and why where it can't be used.
  std::string AboutGpu();

  // A process that serves a session of so many seconds; its pid is 0 where there is none left.
  SessionProcess Begin(double seconds);

  // Until no spare is starting.
  void WaitUntilStarted(double limit_s) const;

  std::vector<int> Spares() const;

  // All others have ended.
  void Keep(const std::vector<int>& pids);

 private:
  struct Beginning;
  SessionProcess Start(const Beginning& beginning);
  [[noreturn]] void Live(const Beginning& beginning, int socket, int errors, int parent);
  bool StartSpares(size_t count, bool says_about);
  bool AreStarting() const;

  SessionSettings settings_;
  bool keeps_spares_;
  std::vector<SessionProcess> spares_;
  // Pipes that have writers until spares have started: those of the last ones, and those of the next ones.
  int started_ = -1;
  int next_[2] = {-1, -1};
  double began_ = 0;
};

}  // namespace int8tune
