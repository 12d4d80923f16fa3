// CUDA's runtime library, as far as TVM's runtime calls it, on the memory of this machine (`driver.cc`): libcudart.so.13.
//
// Memory of the device is shared with the processes of launches. Each array lies against a page that can't be touched, on
// the side that `int8tune_guard` says.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include <sys/mman.h>

namespace {
constexpr size_t kPage = 4096, kAlignment = 16;
std::map<void*, std::pair<void*, size_t>> mapped;
int guard_is_behind = 1;
}  // namespace

extern "C" {

void int8tune_guard(int behind) { guard_is_behind = behind; }

int cudaMalloc(void** pointer, size_t bytes) {
  size_t used = (bytes + kAlignment - 1) / kAlignment * kAlignment, pages = (used + kPage - 1) / kPage * kPage;
  size_t all = pages + 2 * kPage;
  char* start = (char*)mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return 2;
  mprotect(start, kPage, PROT_NONE);
  mprotect(start + kPage + pages, kPage, PROT_NONE);
  memset(start + kPage, 0xA5, pages);
  *pointer = start + kPage + (guard_is_behind ? pages - used : 0);
  mapped[*pointer] = {start, all};
  return 0;
}

int cudaFree(void* pointer) {
  auto found = mapped.find(pointer);
  if (found == mapped.end()) return pointer ? 1 : 0;
  munmap(found->second.first, found->second.second);
  mapped.erase(found);
  return 0;
}

int cudaMallocHost(void** pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
int cudaFreeHost(void* pointer) { return cudaFree(pointer); }
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) {
  memcpy(to, from, bytes);
  return 0;
}
int cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void*) {
  memcpy(to, from, bytes);
  return 0;
}
int cudaGetDeviceCount(int* count) { return *count = 1, 0; }
int cudaGetDevice(int* device) { return *device = 0; }
int cudaSetDevice(int) { return 0; }
int cudaDeviceGetAttribute(int* value, int, int) { return *value = 0; }
int cudaGetLastError() { return 0; }
int cudaPeekAtLastError() { return 0; }
const char* cudaGetErrorName(int) { return "cudaError"; }
const char* cudaGetErrorString(int) { return "an error of the emulated GPU"; }
int cudaMemGetInfo(size_t* available, size_t* total) { return *available = *total = size_t(1) << 34, 0; }
int cudaStreamSynchronize(void*) { return 0; }

// Nothing that tests do comes here.
#define UNUSED(name) int name() { return 801; }
UNUSED(cudaEventCreate)
UNUSED(cudaEventDestroy)
UNUSED(cudaEventElapsedTime)
UNUSED(cudaEventRecord)
UNUSED(cudaEventSynchronize)
UNUSED(cudaGetDeviceProperties)
UNUSED(cudaGraphDestroy)
UNUSED(cudaGraphExecDestroy)
UNUSED(cudaGraphInstantiate)
UNUSED(cudaGraphLaunch)
UNUSED(cudaStreamBeginCapture)
UNUSED(cudaStreamCreate)
UNUSED(cudaStreamCreateWithFlags)
UNUSED(cudaStreamDestroy)
UNUSED(cudaStreamEndCapture)
UNUSED(cudaStreamWaitEvent)

}  // extern "C"
