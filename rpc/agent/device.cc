#include "device.h"

#include <stdlib.h>

#include <cstring>

#include "processes.h"

namespace int8tune {
namespace {

constexpr size_t kPage = 4096;

class HostDevice final : public Device {
 public:
  DLDevice Id() const override { return {kDLCPU, 0}; }
  bool IsHost() const override { return true; }
  void* Allocate(size_t bytes) override {
    void* place = nullptr;
    if (posix_memalign(&place, kPage, bytes ? bytes : 1) != 0) throw Failure{"MemoryError", "no memory left"};
    return place;
  }
  void Free(void* place) override { free(place); }
  void Write(void* to, const void* from, size_t bytes) override { memcpy(to, from, bytes); }
  void Read(void* to, const void* from, size_t bytes) override { memcpy(to, from, bytes); }
  void Wait() override {}
  double Seconds(const std::function<void()>& calls) override {
    double started = Now();
    calls();
    return Now() - started;
  }
  std::map<std::string, double> State() override { return {}; }
  std::string About() override { return ""; }
};

}  // namespace

Device& Host() {
  static HostDevice host;
  return host;
}

}  // namespace int8tune
