// A GPU that is a CPU: what TVM's runtime, the agent and comparisons take from libcudart.so.13, libcuda.so.1 and
// libnvidia-ml.so.1.
//
// - A module's image is a library for this machine (`block.cc` and a kernel's source). `NAME__launch` in it runs the grid
//   of kernel NAME, `NAME__arguments` says how many arguments it takes.
// - A launch, or that of a whole graph, is a process of its own: one that crashes, never ends, or waits where not all
//   threads do is an error of the context, which stays, and which is seen where somebody waits.
// - Time is that of kernels alone: what they take in these processes.
// - Memory of the device is shared with these processes, and can't be touched here but by copies. Each array lies against
//   a page that can't be touched at all, on the side that `int8tune_guard` says.
// - The file `emulated_gpu.conf` beside the library says which GPU it is, a line each: `driver 12040` (its CUDA version),
//   `gpus 0`, `memory 1000000`, `l2 65536`; `start_ms 1000` and `start_bytes 1000000`, what its start takes in each process;
//   `busy 1`, a process does not let go of its core while it waits for a kernel; `log 1`, the file `emulated_gpu.log` says
//   of each process when its start began (`start PID`), when it was done (`started PID`), and when it ran a graph (`graph PID`).

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr size_t kPage = 4096, kAlignment = 16;
constexpr unsigned kLimitSeconds = 60;
constexpr long kRuntimeVersion = 13000, kUsualMemory = 1L << 34;
constexpr int kOutOfMemory = 2, kOldDriver = 35, kNoDevice = 100, kNoSuchDevice = 101, kInvalidImage = 200;
constexpr int kNotFound = 500, kIllegalAddress = 700, kLaunchFailed = 719, kNotSupported = 801, kCaptured = 906;

struct Launch {  // the beginning of CUlaunchConfig
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
};

struct Function {
  void (*run)(const Launch*, void** arguments);
  void (*set_mode)(unsigned order, unsigned late, unsigned seed);
  int arguments;
};

struct Node {
  Function function;
  Launch launch;
  std::vector<uint64_t> values;
};

using Graph = std::vector<Node>;

struct Array {
  char* start;
  size_t all, pages;
};

struct Mode {
  unsigned order = 0, late = 1, seed = 1;
};

std::map<void*, Array> arrays;
size_t used_bytes = 0;
int sticky = 0, last = 0;
bool guard_is_behind = true;
Graph* captured = nullptr;
Mode mode;
double* run_s = nullptr;  // of all kernels so far; shared with their processes

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

double* RunSeconds() {
  if (!run_s) {
    void* place = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_s = static_cast<double*>(place);
  }
  return run_s;
}

std::string Beside(const char* name) {
  Dl_info self;
  std::string path = dladdr(reinterpret_cast<void*>(&Beside), &self) ? self.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + name;
}

long Setting(const std::string& name, long otherwise) {
  std::ifstream file(Beside("emulated_gpu.conf"));
  std::string word;
  for (long value; file >> word >> value;) {
    if (word == name) return value;
  }
  return otherwise;
}

int Begun() {
  if (Setting("driver", kRuntimeVersion) < kRuntimeVersion) return kOldDriver;
  return Setting("gpus", 1) > 0 ? sticky : kNoDevice;
}

void Log(const char* what) {
  if (!Setting("log", 0)) return;
  int file = open(Beside("emulated_gpu.log").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  dprintf(file, "%s %d\n", what, getpid());
  close(file);
}

// As a driver's, once in each process.
void Start() {
  static int started = 0;
  if (started == getpid()) return;
  started = getpid();
  Log("start");
  usleep(useconds_t(Setting("start_ms", 0)) * 1000);
  if (size_t bytes = size_t(Setting("start_bytes", 0))) {
    static volatile char* kept = static_cast<char*>(malloc(bytes));
    for (size_t place = 0; place < bytes; place += kPage) kept[place] = 1;
  }
  Log("started");
}

int Error(int code) { return code ? (last = code) : 0; }

void Allow(int protection) {
  for (const auto& [place, array] : arrays) mprotect(array.start + kPage, array.pages, protection);
}

// Runs nodes in a process of its own.
void Run(Graph& nodes) {
  if (sticky) return;
  fflush(nullptr);
  double* total_s = RunSeconds();
  pid_t child = fork();
  if (child == 0) {
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGALRM, SIGFPE, SIGABRT}) signal(number, SIG_DFL);
    alarm(kLimitSeconds);
    Allow(PROT_READ | PROT_WRITE);
    double began = Now();
    for (Node& node : nodes) {
      std::vector<void*> arguments;
      for (uint64_t& value : node.values) arguments.push_back(&value);
      if (node.function.set_mode) node.function.set_mode(mode.order, mode.late, mode.seed);
      node.function.run(&node.launch, arguments.data());
    }
    *total_s += Now() - began;
    _exit(0);
  }
  int ended = 0, how = Setting("busy", 0) ? WNOHANG : 0;
  while (waitpid(child, &ended, how) != child) {
  }
  if (WIFSIGNALED(ended)) sticky = WTERMSIG(ended) == SIGALRM ? kLaunchFailed : kIllegalAddress;
  if (WIFEXITED(ended) && WEXITSTATUS(ended) != 0) sticky = kLaunchFailed;
}

const char* NameOf(int code) {
  return code == kIllegalAddress ? "cudaErrorIllegalAddress" : code == kLaunchFailed ? "cudaErrorLaunchFailure" : "cudaErrorOther";
}

}  // namespace

extern "C" {

// For tests: how a block's threads use what is left open; the side of an array that is guarded; a context without errors.
void int8tune_emulate(unsigned order, unsigned late, unsigned seed) { mode = {order, late, seed}; }
void int8tune_guard(int behind) { guard_is_behind = behind; }
void int8tune_reset() { sticky = last = 0; }

// libcudart
int cudaSetDevice(int device) {
  Start();
  return Error(Begun() ? Begun() : device < Setting("gpus", 1) ? 0 : kNoSuchDevice);
}
int cudaGetDevice(int* device) { return *device = 0; }
int cudaGetDeviceCount(int* count) { return *count = int(Setting("gpus", 1)), Error(Begun()); }
int cudaDriverGetVersion(int* version) { return *version = int(Setting("driver", kRuntimeVersion)), 0; }
int cudaRuntimeGetVersion(int* version) { return *version = kRuntimeVersion, 0; }
int cudaPeekAtLastError() { return last; }
int cudaGetLastError() {
  int code = last;
  last = sticky;
  return code;
}
const char* cudaGetErrorName(int code) { return NameOf(code); }
const char* cudaGetErrorString(int code) {
  if (code == kIllegalAddress) return "an illegal memory access was encountered";
  return code == kLaunchFailed ? "unspecified launch failure" : "another error";
}
int cudaDeviceGetAttribute(int* value, int which, int) {
  // cudaDevAttr...: threads of a block and of a warp, clock, multiprocessors, L2, version, shared memory
  const int l2_bytes = int(Setting("l2", 50 << 20));
  const std::map<int, int> known = {{1, 1024}, {10, 32}, {13, 1980000},   {16, 132},      {38, l2_bytes},
                                    {75, 9},   {76, 0},  {81, 228 << 10}, {97, 227 << 10}};
  auto found = known.find(which);
  *value = found == known.end() ? 0 : found->second;
  return 0;
}
int cudaDeviceGetPCIBusId(char* place, int length, int device) {
  return snprintf(place, size_t(length), "0000:0%d:00.0", device), 0;
}
int cudaGetDeviceProperties(void*, int) { return kNotSupported; }
int cudaMemGetInfo(size_t* available, size_t* all) {
  *all = size_t(Setting("memory", kUsualMemory));
  *available = *all - used_bytes;
  return 0;
}
int cudaMalloc(void** pointer, size_t bytes) {
  size_t used = (bytes + kAlignment - 1) / kAlignment * kAlignment, pages = (used + kPage - 1) / kPage * kPage;
  if (Begun()) return Error(Begun());
  if (used_bytes + used > size_t(Setting("memory", kUsualMemory))) return Error(kOutOfMemory);
  void* mapped = mmap(nullptr, pages + 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return Error(kOutOfMemory);
  char* start = static_cast<char*>(mapped);
  memset(start + kPage, 0xA5, pages);
  mprotect(start, pages + 2 * kPage, PROT_NONE);
  *pointer = start + kPage + (guard_is_behind ? pages - used : 0);
  arrays[*pointer] = {start, used, pages};
  used_bytes += used;
  return 0;
}
int cudaFree(void* pointer) {
  auto found = arrays.find(pointer);
  if (found == arrays.end()) return Error(pointer ? 1 : Begun());
  munmap(found->second.start, found->second.pages + 2 * kPage);
  used_bytes -= found->second.all;
  arrays.erase(found);
  return Error(sticky);
}
int cudaMallocHost(void** pointer, size_t bytes) { return (*pointer = malloc(bytes)) ? 0 : kOutOfMemory; }
int cudaFreeHost(void* pointer) { return free(pointer), 0; }
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) {
  if (captured || sticky) return Error(captured ? kCaptured : sticky);
  Allow(PROT_READ | PROT_WRITE);
  memcpy(to, from, bytes);
  Allow(PROT_NONE);
  return 0;
}
int cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, 3, stream);
}
int cudaStreamCreateWithFlags(void** stream, unsigned) { return (*stream = malloc(1)) ? 0 : kOutOfMemory; }
int cudaStreamCreate(void** stream) { return cudaStreamCreateWithFlags(stream, 0); }
int cudaStreamDestroy(void* stream) { return free(stream), 0; }
int cudaStreamSynchronize(void*) { return Error(captured ? kCaptured : sticky); }
int cudaStreamWaitEvent(void*, void*, unsigned) { return 0; }
int cudaStreamBeginCapture(void* stream, int) {
  if (!stream) return Error(kCaptured);  // the stream that is there without one can't be captured
  captured = new Graph;
  return 0;
}
int cudaStreamEndCapture(void*, void** graph) {
  *graph = captured;
  captured = nullptr;
  return 0;
}
int cudaGraphInstantiate(void** ready, void* graph, unsigned long long) {
  *ready = new Graph(*static_cast<Graph*>(graph));
  return 0;
}
int cudaGraphUpload(void*, void*) { return Error(sticky); }
int cudaGraphLaunch(void* ready, void*) {
  Log("graph");
  Run(*static_cast<Graph*>(ready));
  return 0;
}
int cudaGraphExecDestroy(void* ready) { return delete static_cast<Graph*>(ready), 0; }
int cudaGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
int cudaEventCreate(void** event) { return (*event = malloc(sizeof(double))) ? 0 : kOutOfMemory; }
int cudaEventDestroy(void* event) { return free(event), 0; }
int cudaEventRecord(void* event, void*) { return *static_cast<double*>(event) = *RunSeconds(), 0; }
int cudaEventSynchronize(void*) { return Error(sticky); }
int cudaEventElapsedTime(float* taken_ms, void* begun, void* done) {
  *taken_ms = float((*static_cast<double*>(done) - *static_cast<double*>(begun)) * 1e3);
  return 0;
}

// libcuda
int cuDeviceGetName(char* name, int length, int) { return snprintf(name, size_t(length), "Emulated GPU"), 0; }
int cuGetErrorName(int code, const char** name) { return *name = NameOf(code), 0; }
int cuGetErrorString(int code, const char** text) { return *text = cudaGetErrorString(code), 0; }
int cuFuncSetAttribute(void*, int, int value) { return value > 227 << 10; }
int cuTensorMapEncodeTiled() { return kNotSupported; }
int cuModuleUnload(void* module) { return dlclose(module); }
int cuModuleLoadData(void** module, const void* image) {
  // An ELF file ends with the table of its sections.
  uint64_t sections;
  uint16_t size, count;
  const char* bytes = static_cast<const char*>(image);
  if (captured || memcmp(bytes, "\x7f" "ELF", 4) != 0) return captured ? kCaptured : kInvalidImage;
  memcpy(&sections, bytes + 40, 8), memcpy(&size, bytes + 58, 2), memcpy(&count, bytes + 60, 2);
  size_t all = sections + size_t(size) * count;
  // The file stays open: of one name, another image would be this library again.
  int file = memfd_create("image", 0);
  if (write(file, bytes, all) != ssize_t(all)) return kInvalidImage;
  *module = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!*module) return fprintf(stderr, "emulated GPU: %s\n", dlerror()), kInvalidImage;
  return 0;
}
int cuModuleGetFunction(void** found, void* module, const char* name) {
  auto* run = dlsym(module, (std::string(name) + "__launch").c_str());
  auto* arguments = static_cast<const int*>(dlsym(module, (std::string(name) + "__arguments").c_str()));
  if (!run || !arguments) return kNotFound;
  auto* set_mode = reinterpret_cast<void (*)(unsigned, unsigned, unsigned)>(dlsym(module, "int8tune_emulate"));
  *found = new Function{reinterpret_cast<void (*)(const Launch*, void**)>(run), set_mode, *arguments};
  return 0;
}
int cuModuleGetGlobal_v2(void*, size_t*, void*, const char*) { return kNotFound; }
int cuLaunchKernelEx(const Launch* launch, void* launched, void** arguments, void**) {
  Node node{*static_cast<Function*>(launched), *launch, {}};
  for (int i = 0; i < node.function.arguments; ++i) node.values.push_back(*static_cast<uint64_t*>(arguments[i]));
  if (captured && !launch->stream) return Error(kCaptured);  // of the stream that is there without one, none is captured
  if (captured) return captured->push_back(node), 0;
  int before = Error(sticky);
  Graph one{node};
  Run(one);
  return before;  // what this launch does wrong is seen where somebody waits for it
}

int cuLaunchKernel(
    void* launched, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
    void* stream, void** arguments, void**) {
  Launch launch{{x, y, z}, {bx, by, bz}, shared_bytes, stream};
  return cuLaunchKernelEx(&launch, launched, arguments, nullptr);
}
// NVRTC looks for it in its own process, and then asks the driver for more than there is here.
int cuInit(unsigned) { return Setting("driver_api", 0) ? Begun() : kNoDevice; }
int cuDeviceGet(int* device, int number) { return *device = number, number < Setting("gpus", 1) ? 0 : kNoSuchDevice; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &mode, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxSynchronize() { return Error(sticky); }
int cuMemAlloc_v2(void** pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
int cuMemFree_v2(void* pointer) { return cudaFree(pointer); }
int cuMemcpyHtoD_v2(void* to, const void* from, size_t bytes) { return cudaMemcpyAsync(to, from, bytes, 1, nullptr); }
int cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) { return cudaMemcpyAsync(to, from, bytes, 2, nullptr); }
int cuEventCreate(void** event, unsigned) { return cudaEventCreate(event); }
int cuEventRecord(void* event, void* stream) { return cudaEventRecord(event, stream); }
int cuEventSynchronize(void* event) { return cudaEventSynchronize(event); }
int cuEventElapsedTime(float* taken_ms, void* begun, void* done) { return cudaEventElapsedTime(taken_ms, begun, done); }

// libnvidia-ml
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** handle) {
  *handle = &mode;
  return strcmp(place, "0000:00:00.0");
}
int nvmlDeviceGetName(void*, char* name, unsigned length) { return snprintf(name, length, "Emulated GPU"), 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned length) { return snprintf(version, length, "580.65.06"), 0; }
int nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) { return *mhz = which == 1 ? 1755 : 2619, 0; }
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return *celsius = 47, 0; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatt) { return *milliwatt = 312500, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) { return *reasons = 4, 0; }

}  // extern "C"
