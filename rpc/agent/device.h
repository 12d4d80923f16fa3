// Where a program's arguments are, and how its calls are timed.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace int8tune {

struct Failure {
  std::string kind;
  std::string text;
};

// All methods but `Free` throw `Failure`.
class Device {
 public:
  virtual ~Device() = default;
  virtual DLDevice Id() const = 0;
  // Whether what it allocates is this process's own memory.
  virtual bool IsHost() const = 0;
  // Memory on a page's border.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* place) = 0;
  virtual void Write(void* to, const void* from, size_t bytes) = 0;
  virtual void Read(void* to, const void* from, size_t bytes) = 0;
  // Until everything that was begun is done.
  virtual void Wait() = 0;
  // The seconds that calls take, from the first one's begin to the last one's end.
  virtual double Seconds(const std::function<void()>& calls) = 0;
  // Numbers of its state just now, such as clocks; nothing where it says none.
  virtual std::map<std::string, double> State() = 0;
  // Lines `name=value` of what it is; nothing where it is this machine.
  virtual std::string About() = 0;
};

// This machine's memory and clock.
Device& Host();

}  // namespace int8tune
