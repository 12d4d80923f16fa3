/* A GPU that this machine plays: what the agent and TVM's runtime take from libcudart.so.13, libcuda.so.1 and
   libnvidia-ml.so.1, in one library that has all three names.

   A module's image is a library for this machine; a kernel in it is called with its launch's numbers and arguments, one
   launch after the other. The number `NAME_arguments` in it says how many kernel NAME takes. The GPU's memory can't be touched but by kernels and copies; what a kernel touches that is not
   there is an error of its context, which stays, as on a real one. The file `played_gpu.conf` beside the library says
   which GPU it is, a line each: `driver 12040` (its CUDA version), `gpus 0`, `memory 1000000`. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, OLD_DRIVER = 35, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700, CAPTURED = 906 };
enum { MOST_BLOCKS = 4096, MOST_NODES = 1 << 20, MOST_ARGUMENTS = 16, RUNTIME_VERSION = 13000 };

typedef struct {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
} Launch; /* the beginning of CUlaunchConfig */

typedef void (*Kernel)(void** arguments, const uint32_t* grid, const uint32_t* block);

typedef struct {
  Kernel kernel;
  int arguments;
} Function;

typedef struct {
  Kernel kernel;
  Launch launch;
  void* arguments[MOST_ARGUMENTS];
  uint64_t values[MOST_ARGUMENTS];
} Node;

typedef struct {
  size_t count;
  Node* nodes;
} Graph;

static struct {
  void* place;
  size_t bytes;
} blocks[MOST_BLOCKS];
static size_t block_count, used_bytes;
static int sticky, last;
static Graph* captured;
static sigjmp_buf fault;

static long setting(const char* name, long otherwise) {
  Dl_info self;
  char path[4096], word[64];
  long value;
  if (!dladdr((void*)setting, &self)) return otherwise;
  snprintf(path, sizeof path, "%s", self.dli_fname);
  char* end = strrchr(path, '/');
  strcpy(end ? end + 1 : path, "played_gpu.conf");
  FILE* file = fopen(path, "r");
  while (file && fscanf(file, "%63s %ld", word, &value) == 2)
    if (!strcmp(word, name)) otherwise = value;
  if (file) fclose(file);
  return otherwise;
}

static int begun(void) {
  if (setting("driver", RUNTIME_VERSION) < RUNTIME_VERSION) return OLD_DRIVER;
  return setting("gpus", 1) > 0 ? sticky : NO_DEVICE;
}

static int error(int code) { return code ? (last = code) : 0; }

static void allow(int protection) {
  for (size_t i = 0; i < block_count; ++i) mprotect(blocks[i].place, blocks[i].bytes, protection);
}

static void on_fault(int number) {
  (void)number;
  siglongjmp(fault, 1);
}

/* What touches the GPU's memory: a copy or a kernel. */
static int touch(void (*what)(void*), void* with) {
  struct sigaction before, action = {.sa_handler = on_fault};
  if (sticky) return error(sticky);
  sigaction(SIGSEGV, &action, &before);
  allow(PROT_READ | PROT_WRITE);
  if (sigsetjmp(fault, 1) == 0) what(with);
  else sticky = ILLEGAL_ADDRESS;
  allow(PROT_NONE);
  sigaction(SIGSEGV, &before, NULL);
  return error(sticky);
}

static void call_node(void* node) {
  Node* which = node;
  which->kernel(which->arguments, which->launch.grid, which->launch.block);
}

typedef struct {
  void* to;
  const void* from;
  size_t bytes;
} Copy;

static void copy(void* which) { memcpy(((Copy*)which)->to, ((Copy*)which)->from, ((Copy*)which)->bytes); }

/* libcudart */
int cudaSetDevice(int device) { return error(begun() ? begun() : device < setting("gpus", 1) ? 0 : 101); }
int cudaGetDevice(int* device) { return *device = 0; }
int cudaGetDeviceCount(int* count) { return *count = (int)setting("gpus", 1), error(begun()); }
int cudaDriverGetVersion(int* version) { return *version = (int)setting("driver", RUNTIME_VERSION), 0; }
int cudaRuntimeGetVersion(int* version) { return *version = RUNTIME_VERSION, 0; }
int cudaGetLastError(void) {
  int code = last;
  last = sticky;
  return code;
}
int cudaPeekAtLastError(void) { return last; }
const char* cudaGetErrorName(int code) { return code == ILLEGAL_ADDRESS ? "cudaErrorIllegalAddress" : "cudaErrorOther"; }
const char* cudaGetErrorString(int code) {
  return code == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "another error";
}
int cudaDeviceGetAttribute(int* value, int which, int device) {
  (void)device;
  const int known[][2] = {{13, 1980000}, {16, 132}, {38, 50 << 20}, {75, 9}, {76, 0}, {81, 228 << 10}, {97, 227 << 10},
                          {10, 32}, {1, 1024}};
  *value = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (known[i][0] == which) *value = known[i][1];
  return 0;
}
int cudaDeviceGetPCIBusId(char* place, int length, int device) { return snprintf(place, length, "0000:0%d:00.0", device), 0; }
int cudaGetDeviceProperties(void* properties, int device) { return (void)properties, (void)device, 1; }
int cudaMemGetInfo(size_t* free_bytes, size_t* all) {
  *all = (size_t)setting("memory", 1L << 30);
  *free_bytes = *all - used_bytes;
  return 0;
}
int cudaMalloc(void** place, size_t bytes) {
  size_t whole = (bytes + 4095) / 4096 * 4096;
  if (begun()) return error(begun());
  if (used_bytes + whole > (size_t)setting("memory", 1L << 30) || block_count == MOST_BLOCKS) return error(OUT_OF_MEMORY);
  *place = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  blocks[block_count].place = *place;
  blocks[block_count++].bytes = whole;
  used_bytes += whole;
  return 0;
}
int cudaFree(void* place) {
  for (size_t i = 0; i < block_count; ++i) {
    if (blocks[i].place != place) continue;
    munmap(place, blocks[i].bytes);
    used_bytes -= blocks[i].bytes;
    blocks[i] = blocks[--block_count];
    break;
  }
  return error(begun());
}
int cudaMallocHost(void** place, size_t bytes) { return (*place = malloc(bytes)) ? 0 : OUT_OF_MEMORY; }
int cudaFreeHost(void* place) { return free(place), 0; }
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int way, void* stream) {
  Copy which = {to, from, bytes};
  (void)way, (void)stream;
  return captured ? error(CAPTURED) : touch(copy, &which);
}
int cudaMemcpyPeerAsync(void* to, int a, const void* from, int b, size_t bytes, void* stream) {
  return (void)a, (void)b, cudaMemcpyAsync(to, from, bytes, 3, stream);
}
int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return (void)flags, *stream = malloc(1), 0; }
int cudaStreamCreate(void** stream) { return cudaStreamCreateWithFlags(stream, 0); }
int cudaStreamDestroy(void* stream) { return free(stream), 0; }
int cudaStreamSynchronize(void* stream) { return (void)stream, error(captured ? CAPTURED : sticky); }
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) { return (void)stream, (void)event, (void)flags, 0; }
int cudaStreamBeginCapture(void* stream, int mode) {
  (void)mode;
  if (!stream) return error(CAPTURED); /* the stream that is there without one can't be captured */
  captured = calloc(1, sizeof *captured);
  captured->nodes = malloc(MOST_NODES * sizeof(Node)); /* pages that are not used take no memory */
  return 0;
}
int cudaStreamEndCapture(void* stream, void** graph) {
  (void)stream;
  *graph = captured;
  captured = NULL;
  return 0;
}
int cudaGraphInstantiate(void** ready, void* graph, unsigned long long flags) {
  const Graph* described = graph;
  Graph* copy = *ready = malloc(sizeof *copy);
  (void)flags;
  copy->count = described->count;
  copy->nodes = malloc((copy->count + 1) * sizeof(Node));
  memcpy(copy->nodes, described->nodes, copy->count * sizeof(Node));
  for (size_t i = 0; i < copy->count; ++i)
    for (int j = 0; j < MOST_ARGUMENTS; ++j) copy->nodes[i].arguments[j] = &copy->nodes[i].values[j];
  return 0;
}
int cudaGraphLaunch(void* ready, void* stream) {
  Graph* graph = ready;
  (void)stream;
  for (size_t i = 0; i < graph->count && !sticky; ++i) touch(call_node, &graph->nodes[i]);
  return 0;
}
int cudaGraphExecDestroy(void* ready) { return free(((Graph*)ready)->nodes), free(ready), 0; }
int cudaGraphDestroy(void* graph) { return free(((Graph*)graph)->nodes), free(graph), 0; }
int cudaEventCreate(void** event) { return (*event = malloc(sizeof(struct timespec))) ? 0 : 1; }
int cudaEventDestroy(void* event) { return free(event), 0; }
int cudaEventRecord(void* event, void* stream) { return (void)stream, clock_gettime(CLOCK_MONOTONIC, event), 0; }
int cudaEventSynchronize(void* event) { return (void)event, error(sticky); }
int cudaEventElapsedTime(float* taken_ms, void* begun_at, void* done_at) {
  struct timespec *from = begun_at, *until = done_at;
  *taken_ms = (float)((double)(until->tv_sec - from->tv_sec) * 1e3 + (double)(until->tv_nsec - from->tv_nsec) * 1e-6);
  return 0;
}

/* libcuda */
int cuDeviceGetName(char* name, int length, int device) { return (void)device, snprintf(name, length, "Played GPU"), 0; }
int cuGetErrorName(int code, const char** name) { return *name = cudaGetErrorName(code), 0; }
int cuGetErrorString(int code, const char** text) { return *text = cudaGetErrorString(code), 0; }
int cuFuncSetAttribute(void* kernel, int which, int value) { return (void)kernel, (void)which, value > 227 << 10; }
int cuTensorMapEncodeTiled(void) { return 801; }
int cuModuleUnload(void* module) { return (void)module, 0; }
int cuModuleLoadData(void** module, const void* image) {
  const Elf64_Ehdr* head = image;
  char path[64];
  if (captured) return CAPTURED;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG)) return 200;
  size_t bytes = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  int file = memfd_create("image", 0);
  if (write(file, image, bytes) != (ssize_t)bytes) return 200;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  *module = dlopen(path, RTLD_NOW); /* the file stays open: of one name, another image would be this library again */
  return *module ? 0 : 200;
}
int cuModuleGetFunction(void** found, void* module, const char* name) {
  char counted[256];
  snprintf(counted, sizeof counted, "%s_arguments", name);
  const int* arguments = dlsym(module, counted);
  Function* function = malloc(sizeof *function);
  function->kernel = (Kernel)dlsym(module, name);
  function->arguments = arguments ? *arguments : 0;
  *found = function;
  return function->kernel && arguments && *arguments <= MOST_ARGUMENTS ? 0 : 500;
}
int cuLaunchKernelEx(const Launch* launch, void* launched, void** arguments, void** extra) {
  const Function* function = launched;
  Node node = {.kernel = function->kernel, .launch = *launch};
  Node* kept = captured ? &captured->nodes[captured->count++] : &node;
  (void)extra;
  *kept = node;
  /* Arguments are copied, as a launch does: where they lay may be gone when a graph is launched. */
  for (int i = 0; i < function->arguments; ++i) {
    kept->values[i] = *(uint64_t*)arguments[i];
    kept->arguments[i] = &kept->values[i];
  }
  if (captured) return 0;
  int before = error(sticky);
  touch(call_node, kept);
  return before; /* what this launch does wrong is seen where somebody waits for it */
}

/* libnvidia-ml */
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** handle) { return *handle = (void*)place, strcmp(place, "0000:00:00.0"); }
int nvmlDeviceGetName(void* handle, char* name, unsigned length) { return (void)handle, snprintf(name, length, "Played GPU"), 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned length) { return snprintf(version, length, "580.65.06"), 0; }
int nvmlDeviceGetClockInfo(void* handle, int which, unsigned* mhz) { return (void)handle, *mhz = which == 1 ? 1755 : 2619, 0; }
int nvmlDeviceGetTemperature(void* handle, int which, unsigned* c) { return (void)handle, (void)which, *c = 47, 0; }
int nvmlDeviceGetPowerUsage(void* handle, unsigned* mw) { return (void)handle, *mw = 312500, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) { return (void)handle, *reasons = 4, 0; }
