// Runs a compiled model without Python, on libtvm_ffi.so and libtvm_runtime.so alone (6 MB).
//
//     make -C examples run_model PYTHON=python3
//     examples/run_model MODEL.so [INPUT ...] [-o PREFIX]
//
// INPUT is a file with the bytes of each of the model's inputs; without any, all inputs are zeros. The bytes of the
// outputs are written to PREFIX.0, PREFIX.1 and so on. A compiled model is code: trust where it comes from.

#include <sys/syscall.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ffi = tvm::ffi;

constexpr int64_t kAboutFormat = 1;
constexpr int64_t kPooledAllocator = 2;
constexpr int kRuns = 50;
constexpr size_t kTop = 5;

// The JSON text that a compiled model carries: its inputs, outputs, the CPU features it needs.
class About {
 public:
  explicit About(const ffi::json::Value& value) : fields_(value.cast<ffi::json::Object>()) {}

  template <typename T>
  T Get(const char* name) const {
    return fields_.at(ffi::String(name)).cast<T>();
  }

  std::string Text(const char* name) const { return Get<ffi::String>(name); }

  std::vector<std::string> Texts(const char* name) const {
    std::vector<std::string> found;
    for (const ffi::Any& each : Get<ffi::json::Array>(name)) found.push_back(each.cast<ffi::String>());
    return found;
  }

  std::vector<About> Forms(const char* name) const {
    std::vector<About> found;
    for (const ffi::Any& each : Get<ffi::json::Array>(name)) found.emplace_back(each);
    return found;
  }

  std::vector<int64_t> Shape() const {
    std::vector<int64_t> found;
    for (const ffi::Any& each : Get<ffi::json::Array>("shape")) found.push_back(each.cast<int64_t>());
    return found;
  }

 private:
  ffi::json::Object fields_;
};

// Kernels take only values that begin where a vector may.
struct AlignedMemory {
  static constexpr size_t kAlignment = 64;

  void AllocData(DLTensor* tensor) {
    size_t size = (ffi::GetDataSize(*tensor) + kAlignment - 1) / kAlignment * kAlignment;
    tensor->data = std::aligned_alloc(kAlignment, size);
    if (tensor->data == nullptr) throw std::bad_alloc();
    std::memset(tensor->data, 0, size);
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

// `f32`, `u8`, `s8` and so on.
DLDataType TypeNamed(const std::string& name) {
  uint8_t code = name[0] == 'f' ? kDLFloat : name[0] == 'u' ? kDLUInt : kDLInt;
  return DLDataType{code, static_cast<uint8_t>(std::stoi(name.substr(1))), 1};
}

size_t ByteCount(const ffi::Tensor& tensor) {
  return ffi::GetDataSize(static_cast<size_t>(tensor.numel()), tensor.dtype());
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": can't be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

ffi::Tensor ReadInput(const About& form, const std::string* path) {
  DLDevice cpu{kDLCPU, 0};
  ffi::Tensor tensor =
      ffi::Tensor::FromNDAlloc(AlignedMemory(), ffi::Shape(form.Shape()), TypeNamed(form.Text("type")), cpu);
  if (path == nullptr) return tensor;
  std::string bytes = ReadFile(*path);
  size_t size = ByteCount(tensor);
  if (bytes.size() != size) {
    throw std::runtime_error("input `" + form.Text("name") + "` has " + std::to_string(size) + " bytes, " + *path +
                             " has " + std::to_string(bytes.size()));
  }
  std::memcpy(tensor.data_ptr(), bytes.data(), size);
  return tensor;
}

// Linux gives the registers of AMX to processes that ask: Documentation/arch/x86/xstate.rst.
bool AllowTileRegisters() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::set<std::string> CpuFeatures() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

// An instruction that a CPU lacks would end the program.
void RequireCpu(const About& about) {
  std::set<std::string> features = CpuFeatures();
  for (const std::string& name : about.Texts("needs")) {
    bool needs_tiles = name.rfind("amx_", 0) == 0;
    if (features.count(name) == 0 || (needs_tiles && !AllowTileRegisters())) {
      throw std::runtime_error("it was compiled for " + about.Text("target") + ", this CPU lacks: " + name);
    }
  }
}

// A Relax executable in TVM's virtual machine.
class Model {
 public:
  explicit Model(const std::string& path)
      : library_(ffi::Module::LoadFromFile(path)), machine_(Machine()), about_(ffi::json::Parse(AboutText())) {
    if (about_.Get<int64_t>("int8tune_model") != kAboutFormat) throw std::runtime_error("it is of another version");
    RequireCpu(about_);
    const int64_t threads = about_.Get<int64_t>("threads");
    if (threads == 1) return;
    // TVM has threads for half of a machine's processors otherwise, and idle ones keep a busy machine's process from
    // ending for minutes.
    setenv("TVM_NUM_THREADS", std::to_string(std::thread::hardware_concurrency()).c_str(), 0);
    setenv("TVM_THREAD_POOL_SPIN_COUNT", "500", 0);
    ffi::Function::GetGlobalRequired("runtime.config_threadpool")(1, threads);
  }

  const About& about() const { return about_; }

  std::vector<ffi::Tensor> Run(const std::vector<ffi::Tensor>& inputs) {
    std::vector<ffi::AnyView> arguments(inputs.begin(), inputs.end());
    ffi::Any made;
    Function("main").CallPacked(arguments.data(), static_cast<int32_t>(arguments.size()), &made);
    if (about_.Forms("outputs").size() == 1) return {made.cast<ffi::Tensor>()};
    ffi::Array<ffi::Tensor> outputs = made.cast<ffi::Array<ffi::Tensor>>();
    return {outputs.begin(), outputs.end()};
  }

 private:
  ffi::Module Machine() {
    auto load = library_->GetFunction("vm_load_executable", /*query_imports=*/true);
    if (!load.has_value()) throw std::runtime_error("it is no compiled model");
    ffi::Module machine = load.value()().cast<ffi::Module>();
    machine->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);
    return machine;
  }
  ffi::Function Function(const char* name) { return machine_->GetFunction(name).value(); }
  ffi::String AboutText() {
    ffi::Tensor text = Function("about")().cast<ffi::Tensor>();
    return ffi::String(static_cast<const char*>(text.data_ptr()), text.numel());
  }

  ffi::Module library_, machine_;
  About about_;
};

template <typename T>
std::vector<double> Numbers(const ffi::Tensor& tensor) {
  const T* first = static_cast<const T*>(tensor.data_ptr());
  return {first, first + tensor.numel()};
}

std::vector<double> Numbers(const ffi::Tensor& tensor, const std::string& type) {
  if (type == "f32") return Numbers<float>(tensor);
  if (type == "u8") return Numbers<uint8_t>(tensor);
  if (type == "s8") return Numbers<int8_t>(tensor);
  if (type == "s16") return Numbers<int16_t>(tensor);
  if (type == "s32") return Numbers<int32_t>(tensor);
  if (type == "s64") return Numbers<int64_t>(tensor);
  throw std::runtime_error("an output has a type that is not known: " + type);
}

void PrintTop(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t one, size_t other) { return values[one] > values[other]; });
  for (size_t place = 0; place < std::min(kTop, order.size()); ++place) {
    std::printf("%6zu  %g\n", order[place], values[order[place]]);
  }
}

void PrintTimes(Model& model, const std::vector<ffi::Tensor>& inputs) {
  std::vector<double> times_ms;
  for (int run = 0; run < kRuns; ++run) {
    auto started = std::chrono::steady_clock::now();
    model.Run(inputs);
    times_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count());
  }
  std::sort(times_ms.begin(), times_ms.end());
  std::printf("median of %d runs: %.3f ms, fastest %.3f ms\n", kRuns, times_ms[kRuns / 2], times_ms[0]);
}

void RunModel(const std::string& path, const std::vector<std::string>& files, const std::string& prefix) {
  // A name without a folder would be looked for among the system's libraries.
  Model model(path.find('/') == std::string::npos ? "./" + path : path);
  std::vector<About> forms = model.about().Forms("inputs");
  if (!files.empty() && files.size() != forms.size()) {
    throw std::runtime_error("the model takes " + std::to_string(forms.size()) + " inputs: " +
                             std::to_string(files.size()));
  }
  std::vector<ffi::Tensor> inputs;
  for (size_t at = 0; at < forms.size(); ++at) {
    inputs.push_back(ReadInput(forms[at], files.empty() ? nullptr : &files[at]));
  }
  std::vector<ffi::Tensor> outputs = model.Run(inputs);
  PrintTop(Numbers(outputs[0], model.about().Forms("outputs")[0].Text("type")));
  for (size_t at = 0; at < outputs.size() && !prefix.empty(); ++at) {
    std::ofstream file(prefix + "." + std::to_string(at), std::ios::binary);
    file.write(static_cast<const char*>(outputs[at].data_ptr()), ByteCount(outputs[at]));
    if (!file.flush()) throw std::runtime_error(prefix + ": can't be written");
  }
  PrintTimes(model, inputs);
}

int main(int count, char** words) {
  std::vector<std::string> files(words + 1, words + count);
  std::string prefix;
  if (files.size() >= 2 && files[files.size() - 2] == "-o") {
    prefix = files.back();
    files.resize(files.size() - 2);
  }
  if (files.empty() || files[0][0] == '-') {
    std::fprintf(stderr, "usage: run_model MODEL.so [INPUT ...] [-o PREFIX]\n");
    return 2;
  }
  try {
    RunModel(files[0], {files.begin() + 1, files.end()}, prefix);
    return 0;
  } catch (const ffi::Error& error) {
    std::fprintf(stderr, "error: %s: %s\n", files[0].c_str(), error.message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s: %s\n", files[0].c_str(), error.what());
  }
  return 1;
}
