// CUDA and NVML are looked up when they are needed: most boards have neither.
//
// Calls are timed as nodes of one graph. A launch takes the host some microseconds, longer than many a kernel: a loop of
// launches would give its time, not the kernel's.
#include "gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <tvm/ffi/extra/c_env_api.h>

namespace int8tune {
namespace {

// Of driver_types.h and nvml.h.
constexpr int kToDevice = 1, kToHost = 2;
constexpr int kRelaxed = 2;
constexpr unsigned kNonBlocking = 1;
constexpr int kInsufficientDriver = 35, kNoDevice = 100, kOutOfMemory = 2;
constexpr int kClockKhz = 13, kMultiprocessors = 16, kL2Bytes = 38, kMajor = 75, kMinor = 76;
constexpr int kSharedBytesOfBlock = 97, kSharedBytesOfMultiprocessor = 81;
constexpr int kSmClock = 1, kMemoryClock = 2;

struct Runtime {
  int (*cudaGetDeviceCount)(int*);
  int (*cudaSetDevice)(int);
  int (*cudaFree)(void*);
  int (*cudaMalloc)(void**, size_t);
  int (*cudaMemGetInfo)(size_t*, size_t*);
  int (*cudaMemcpyAsync)(void*, const void*, size_t, int, void*);
  int (*cudaDeviceGetAttribute)(int*, int, int);
  int (*cudaDeviceGetPCIBusId)(char*, int, int);
  int (*cudaDriverGetVersion)(int*);
  int (*cudaRuntimeGetVersion)(int*);
  int (*cudaGetLastError)();
  const char* (*cudaGetErrorName)(int);
  const char* (*cudaGetErrorString)(int);
  int (*cudaStreamCreateWithFlags)(void**, unsigned);
  int (*cudaStreamSynchronize)(void*);
  int (*cudaStreamBeginCapture)(void*, int);
  int (*cudaStreamEndCapture)(void*, void**);
  int (*cudaGraphInstantiate)(void**, void*, unsigned long long);
  int (*cudaGraphUpload)(void*, void*);
  int (*cudaGraphLaunch)(void*, void*);
  int (*cudaGraphExecDestroy)(void*);
  int (*cudaGraphDestroy)(void*);
  int (*cudaEventCreate)(void**);
  int (*cudaEventDestroy)(void*);
  int (*cudaEventRecord)(void*, void*);
  int (*cudaEventSynchronize)(void*);
  int (*cudaEventElapsedTime)(float*, void*, void*);
};

struct Management {
  int (*nvmlInit_v2)();
  int (*nvmlDeviceGetHandleByPciBusId_v2)(const char*, void**);
  int (*nvmlDeviceGetClockInfo)(void*, int, unsigned*);
  int (*nvmlDeviceGetTemperature)(void*, int, unsigned*);
  int (*nvmlDeviceGetPowerUsage)(void*, unsigned*);
  int (*nvmlDeviceGetCurrentClocksThrottleReasons)(void*, unsigned long long*);
  int (*nvmlSystemGetDriverVersion)(char*, unsigned);
};

Failure Unusable(const std::string& why) { return {"GpuUnusable", why}; }

void* Library(const char* name, int flags = RTLD_NOW | RTLD_LOCAL) {
  void* library = dlopen(name, flags);
  if (!library) throw Unusable(dlerror());
  return library;
}

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw Unusable(std::string("a library has no ") + name);
}

#define FIND(name) Find(library, #name, found.name)

Runtime FindRuntime() {
  Runtime found;
  void* library = Library("libcudart.so.13");
  FIND(cudaGetDeviceCount), FIND(cudaSetDevice), FIND(cudaFree), FIND(cudaMalloc), FIND(cudaMemGetInfo);
  FIND(cudaMemcpyAsync);
  FIND(cudaDeviceGetAttribute), FIND(cudaDeviceGetPCIBusId), FIND(cudaDriverGetVersion), FIND(cudaRuntimeGetVersion);
  FIND(cudaGetLastError), FIND(cudaGetErrorName), FIND(cudaGetErrorString);
  FIND(cudaStreamCreateWithFlags), FIND(cudaStreamSynchronize), FIND(cudaStreamBeginCapture);
  FIND(cudaStreamEndCapture), FIND(cudaGraphInstantiate), FIND(cudaGraphUpload), FIND(cudaGraphLaunch);
  FIND(cudaGraphExecDestroy), FIND(cudaGraphDestroy), FIND(cudaEventCreate), FIND(cudaEventDestroy), FIND(cudaEventRecord);
  FIND(cudaEventSynchronize), FIND(cudaEventElapsedTime);
  return found;
}

Management FindManagement() {
  Management found;
  void* library = Library("libnvidia-ml.so.1");
  FIND(nvmlInit_v2), FIND(nvmlDeviceGetHandleByPciBusId_v2), FIND(nvmlDeviceGetClockInfo);
  FIND(nvmlDeviceGetTemperature), FIND(nvmlDeviceGetPowerUsage);
  FIND(nvmlDeviceGetCurrentClocksThrottleReasons), FIND(nvmlSystemGetDriverVersion);
  return found;
}

std::string VersionText(int version) { return std::to_string(version / 1000) + "." + std::to_string(version / 10 % 100); }

class Gpu final : public Device {
 public:
  explicit Gpu(int number) : cuda_(FindRuntime()), number_(number) {
    FindDevice();
    Begin(cuda_.cudaSetDevice(number));
    Begin(cuda_.cudaFree(nullptr));  // makes the context
    Begin(cuda_.cudaStreamCreateWithFlags(&stream_, kNonBlocking));
    Check(cuda_.cudaEventCreate(&begun_));
    Check(cuda_.cudaEventCreate(&done_));
    Library("libtvm_runtime_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    if (TVMFFIEnvSetStream(kDLCUDA, number, stream_, nullptr) != 0) throw Unusable("TVM takes no stream");
    FindManager();
  }

  DLDevice Id() const override { return {kDLCUDA, number_}; }
  bool IsHost() const override { return false; }

  void* Allocate(size_t bytes) override {
    void* place = nullptr;
    int error = cuda_.cudaMalloc(&place, bytes ? bytes : 1);
    if (error == kOutOfMemory) {
      size_t free_bytes = 0, all = 0;
      cuda_.cudaGetLastError();
      cuda_.cudaMemGetInfo(&free_bytes, &all);
      throw Failure{"MemoryError", "no memory left on the GPU for " + std::to_string(bytes) + " bytes: " +
                                       std::to_string(free_bytes) + " of " + std::to_string(all) + " are free"};
    }
    Check(error);
    return place;
  }

  void Free(void* place) override { cuda_.cudaFree(place); }

  void Write(void* to, const void* from, size_t bytes) override { Copy(to, from, bytes, kToDevice); }
  void Read(void* to, const void* from, size_t bytes) override { Copy(to, from, bytes, kToHost); }
  void Wait() override { Check(cuda_.cudaStreamSynchronize(stream_)); }

  double Seconds(const std::function<void()>& calls) override {
    Check(cuda_.cudaStreamBeginCapture(stream_, kRelaxed));
    void *graph = nullptr, *ready = nullptr;
    try {
      calls();
    } catch (...) {
      cuda_.cudaStreamEndCapture(stream_, &graph);
      throw;
    }
    Check(cuda_.cudaStreamEndCapture(stream_, &graph));
    Check(cuda_.cudaGraphInstantiate(&ready, graph, 0));
    Check(cuda_.cudaGraphUpload(ready, stream_));  // else its first launch does, between the events
    Wait();
    Check(cuda_.cudaEventRecord(begun_, stream_));
    Check(cuda_.cudaGraphLaunch(ready, stream_));
    Check(cuda_.cudaEventRecord(done_, stream_));
    Check(cuda_.cudaEventSynchronize(done_));
    float taken_ms = 0;
    Check(cuda_.cudaEventElapsedTime(&taken_ms, begun_, done_));
    cuda_.cudaGraphExecDestroy(ready);
    cuda_.cudaGraphDestroy(graph);
    return double(taken_ms) * 1e-3;
  }

  std::map<std::string, double> State() override {
    std::map<std::string, double> state;
    if (!handle_) return state;
    unsigned value = 0;
    unsigned long long reasons = 0;
    if (nvml_.nvmlDeviceGetClockInfo(handle_, kSmClock, &value) == 0) state["gpu_clock_hz"] = value * 1e6;
    if (nvml_.nvmlDeviceGetClockInfo(handle_, kMemoryClock, &value) == 0) state["gpu_memory_clock_hz"] = value * 1e6;
    if (nvml_.nvmlDeviceGetTemperature(handle_, 0, &value) == 0) state["gpu_temperature_c"] = value;
    if (nvml_.nvmlDeviceGetPowerUsage(handle_, &value) == 0) state["gpu_power_w"] = value * 1e-3;
    if (nvml_.nvmlDeviceGetCurrentClocksThrottleReasons(handle_, &reasons) == 0) {
      state["gpu_throttle_reasons"] = double(reasons);
    }
    return state;
  }

  std::string About() override {
    char name[96] = "", driver[96] = "";
    int (*get_name)(char*, int, int);  // a device's handle is its number
    Find(Library("libcuda.so.1"), "cuDeviceGetName", get_name);
    get_name(name, sizeof name, number_);
    if (handle_) nvml_.nvmlSystemGetDriverVersion(driver, sizeof driver);
    size_t free_bytes = 0, all = 0;
    Check(cuda_.cudaMemGetInfo(&free_bytes, &all));
    int runtime = 0;
    cuda_.cudaRuntimeGetVersion(&runtime);
    auto line = [](const char* key, const std::string& value) { return std::string(key) + "=" + value + "\n"; };
    auto attribute = [this](int which) { return std::to_string(Attribute(which)); };
    return line("gpu", name) + line("gpu_driver", driver) + line("gpu_runtime", VersionText(runtime)) +
           line("gpu_architecture", "sm_" + attribute(kMajor) + attribute(kMinor)) +
           line("gpu_multiprocessors", attribute(kMultiprocessors)) + line("gpu_clock_khz", attribute(kClockKhz)) +
           line("gpu_l2_bytes", attribute(kL2Bytes)) + line("gpu_shared_bytes_of_block", attribute(kSharedBytesOfBlock)) +
           line("gpu_shared_bytes_of_multiprocessor", attribute(kSharedBytesOfMultiprocessor)) +
           line("gpu_memory_bytes", std::to_string(all));
  }

 private:
  // What fails before any kernel ran is the GPU's fault, or its driver's.
  void Begin(int error) {
    if (error == 0) return;
    int driver = 0, runtime = 0;
    cuda_.cudaDriverGetVersion(&driver);
    cuda_.cudaRuntimeGetVersion(&runtime);
    if (driver == 0) throw Unusable("this machine has no driver of NVIDIA's");
    if (error == kInsufficientDriver) {
      throw Unusable("its driver is too old: of CUDA " + VersionText(driver) + ", needed " + VersionText(runtime));
    }
    if (error == kNoDevice) throw Unusable("the driver finds no GPU");
    throw Unusable(Said(error));
  }

  void FindDevice() {
    int count = 0;
    Begin(cuda_.cudaGetDeviceCount(&count));
    if (number_ < count) return;
    std::string last = std::to_string(count - 1), all = std::to_string(count);
    throw Unusable("there is no GPU " + std::to_string(number_) + ", of " + all + " the last is " + last);
  }

  void Check(int error) {
    if (error != 0) throw Failure{cuda_.cudaGetErrorName(error), cuda_.cudaGetErrorString(error)};
  }

  std::string Said(int error) {
    return std::string(cuda_.cudaGetErrorName(error)) + ": " + cuda_.cudaGetErrorString(error);
  }

  void Copy(void* to, const void* from, size_t bytes, int way) {
    Check(cuda_.cudaMemcpyAsync(to, from, bytes, way, stream_));
    Wait();
  }

  int Attribute(int which) {
    int value = 0;
    Check(cuda_.cudaDeviceGetAttribute(&value, which, number_));
    return value;
  }

  // Without NVML there are no clocks, and everything else works.
  void FindManager() {
    char place[32] = "";
    try {
      nvml_ = FindManagement();
    } catch (const Failure&) {
      return;
    }
    bool is_there = cuda_.cudaDeviceGetPCIBusId(place, sizeof place, number_) == 0 && nvml_.nvmlInit_v2() == 0;
    if (!is_there || nvml_.nvmlDeviceGetHandleByPciBusId_v2(place, &handle_) != 0) handle_ = nullptr;
  }

  Runtime cuda_;
  Management nvml_ = {};
  int number_;
  void* handle_ = nullptr;
  void* stream_ = nullptr;
  void* begun_ = nullptr;
  void* done_ = nullptr;
};

}  // namespace

std::unique_ptr<Device> OpenGpu(int number) { return std::make_unique<Gpu>(number); }

}  // namespace int8tune
