// What a kernel is called with: cases as they lie in files, and the memory that a call has.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device.h"

namespace int8tune {

// Memory of a device, and what of it this process sees.
class Memory {
 public:
  Memory(Device& device, size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return data_; }
  uint8_t* host() const { return host_; }
  // Makes the device see what this process sees, and the other way.
  void Push();
  void Pull();

 private:
  Device& device_;
  size_t bytes_;
  uint8_t* host_;
  void* data_;
};

struct Array {
  DLDataType type;
  std::vector<int64_t> shape;
  std::string digest;
  size_t bytes = 0;
};

struct Case {
  std::vector<Array> inputs;
  Array output;
};

// What a call takes, and the memory that it has.
struct Call {
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<DLTensor> tensors;
  std::vector<TVMFFIAny> arguments;
};

// An array's digest, type code, bits, axes and extents. Throws `Failure`.
Array ParseArray(std::istringstream& words);

// The arguments of a case, from the files of a folder; the output has `guard` bytes before and after it. The case has to
// outlive the call. Throws `Failure`, of class `CaseMissing` where a file is not there.
std::unique_ptr<Call> MakeCall(Device& device, const std::string& folder, Case& which, size_t guard);

// Whether the bit of a position is set.
bool HasBit(uint64_t bits, size_t position);

// A call with copies of its own of the inputs whose bits are set; the rest is that of `other`, which has to outlive it.
std::unique_ptr<Call> MakeCallBeside(Device& device, const std::string& folder, Case& which, const Call& other,
                                     uint64_t inputs);

}  // namespace int8tune
