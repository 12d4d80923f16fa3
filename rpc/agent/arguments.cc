#include "arguments.h"

#include <fcntl.h>
#include <unistd.h>

namespace int8tune {
namespace {

void ReadCase(const std::string& folder, const Array& array, uint8_t* place) {
  std::string path = folder + "/" + array.digest;
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  size_t done = 0;
  while (file >= 0 && done < array.bytes) {
    ssize_t got = read(file, place + done, array.bytes - done);
    if (got <= 0) break;
    done += size_t(got);
  }
  if (file >= 0) close(file);
  if (done < array.bytes) throw Failure{"CaseMissing", array.digest};
}

void AddTensor(Call& call, const Device& device, Array& array, void* data) {
  DLTensor tensor = {};
  tensor.data = data;
  tensor.device = device.Id();
  tensor.ndim = int32_t(array.shape.size());
  tensor.dtype = array.type;
  tensor.shape = array.shape.data();
  call.tensors.push_back(tensor);
}

void AddInput(Call& call, Device& device, const std::string& folder, Array& array) {
  call.memory.push_back(std::make_unique<Memory>(device, array.bytes));
  Memory& memory = *call.memory.back();
  ReadCase(folder, array, memory.host());
  memory.Push();
  AddTensor(call, device, array, memory.data());
}

// Once all tensors are there, as more of them may move them.
void AddArguments(Call& call) {
  for (DLTensor& tensor : call.tensors) {
    TVMFFIAny any = {};
    any.type_index = kTVMFFIDLTensorPtr;
    any.v_ptr = &tensor;
    call.arguments.push_back(any);
  }
}

}  // namespace

Memory::Memory(Device& device, size_t bytes) : device_(device), bytes_(bytes) {
  data_ = device.Allocate(bytes);
  try {
    host_ = static_cast<uint8_t*>(device.IsHost() ? data_ : Host().Allocate(bytes));
  } catch (...) {
    device.Free(data_);
    throw;
  }
}

Memory::~Memory() {
  if (!device_.IsHost()) Host().Free(host_);
  device_.Free(data_);
}

void Memory::Push() {
  if (!device_.IsHost()) device_.Write(data_, host_, bytes_);
}

void Memory::Pull() {
  if (!device_.IsHost()) device_.Read(host_, data_, bytes_);
}

Array ParseArray(std::istringstream& words) {
  int code = 0, bits = 0, axes = 0;
  Array array;
  words >> array.digest >> code >> bits >> axes;
  array.type = {uint8_t(code), uint8_t(bits), 1};
  size_t count = 1;
  for (int axis = 0; axis < axes && axis < 16; ++axis) {
    int64_t extent = 0;
    words >> extent;
    array.shape.push_back(extent);
    count *= size_t(extent);
  }
  array.bytes = count * size_t(bits / 8);
  if (!words) throw Failure{"ValueError", "a case can't be understood"};
  return array;
}

bool HasBit(uint64_t bits, size_t position) { return position < 64 && (bits >> position & 1); }

std::unique_ptr<Call> MakeCall(Device& device, const std::string& folder, Case& which, size_t guard) {
  auto call = std::make_unique<Call>();
  for (Array& array : which.inputs) AddInput(*call, device, folder, array);
  call->memory.push_back(std::make_unique<Memory>(device, which.output.bytes + 2 * guard));
  AddTensor(*call, device, which.output, static_cast<uint8_t*>(call->memory.back()->data()) + guard);
  AddArguments(*call);
  return call;
}

std::unique_ptr<Call> MakeCallBeside(Device& device, const std::string& folder, Case& which, const Call& other,
                                     uint64_t inputs) {
  auto call = std::make_unique<Call>();
  for (size_t input = 0; input < which.inputs.size(); ++input) {
    if (HasBit(inputs, input)) {
      AddInput(*call, device, folder, which.inputs[input]);
    } else {
      AddTensor(*call, device, which.inputs[input], other.tensors[input].data);
    }
  }
  AddTensor(*call, device, which.output, other.tensors.back().data);
  AddArguments(*call);
  return call;
}

}  // namespace int8tune
