/* Calls a kernel on cases from a file: `emulated_kernel LIBRARY CASES OUTPUTS`.

   Each argument lies between pages that can't be touched, in turn its end as near to one as alignment allows and its
   beginning at one, so a kernel that reads or writes outside of its arguments ends by SIGSEGV. What kernels take from TVM's runtime is here: memory, which
   is guarded, too, and threads, whose work is done in turn. */

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tvm/ffi/c_api.h>

enum { MOST_ARGUMENTS = 8, MOST_AXES = 8, ALIGNMENT = 64, PAGE = 1 << 16, THREADS = 3 };

typedef struct {
  void* sync_handle;
  int32_t num_task;
} ParallelEnvironment;
typedef int (*ParallelBody)(int task, ParallelEnvironment* environment, void* closure);
typedef int (*Entry)(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result);

static void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(2);
}

static int at_begin = 0; /* whether memory begins behind a guard, and does not end before one */

static void* guarded(size_t bytes) {
  size_t used = (bytes + PAGE - 1) / PAGE * PAGE;
  char* memory = mmap(NULL, used + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + PAGE, used, PROT_READ | PROT_WRITE)) fail("no memory");
  memset(memory + PAGE, 0xA5, used);
  return memory + PAGE + (at_begin ? 0 : (used - bytes) / ALIGNMENT * ALIGNMENT);
}

static void* allocate(int device_type, int device_id, uint64_t bytes, int code, int bits) {
  (void)device_type, (void)device_id, (void)code, (void)bits;
  return guarded(bytes);
}

static int release(int device_type, int device_id, void* memory) {
  (void)device_type, (void)device_id, (void)memory; /* the process ends soon */
  return 0;
}

static int launch(ParallelBody body, void* closure, int tasks) {
  ParallelEnvironment environment = {NULL, tasks ? tasks : THREADS};
  for (int task = 0; task < environment.num_task; ++task)
    if (body(task, &environment, closure)) return -1;
  return 0;
}

static void provide(void* library, const char* name, void* function) {
  void** place = dlsym(library, name);
  if (place) *place = function;
}

static void read_exactly(void* into, size_t bytes, FILE* file) {
  if (bytes && fread(into, bytes, 1, file) != 1) fail("the cases end early");
}

static size_t read_argument(DLTensor* tensor, int64_t* shape, int64_t* strides, FILE* file) {
  int32_t head[3]; /* type code, bits, axes */
  read_exactly(head, sizeof head, file);
  if (head[2] < 0 || head[2] > MOST_AXES) fail("too many axes");
  read_exactly(shape, head[2] * sizeof *shape, file);
  size_t bytes = head[1] / 8;
  for (int axis = head[2] - 1; axis >= 0; --axis) {
    strides[axis] = bytes / (head[1] / 8);
    bytes *= shape[axis];
  }
  void* data = guarded(bytes);
  read_exactly(data, bytes, file);
  *tensor = (DLTensor){data, {kDLCPU, 0}, head[2], {head[0], head[1], 1}, shape, strides, 0};
  return bytes;
}

int main(int count, char** words) {
  if (count != 4) fail("usage: emulated_kernel LIBRARY CASES OUTPUTS");
  void* library = dlopen(words[1], RTLD_NOW);
  if (!library) fail(dlerror());
  provide(library, "__TVMBackendAllocWorkspace", (void*)allocate);
  provide(library, "__TVMBackendFreeWorkspace", (void*)release);
  provide(library, "__TVMBackendParallelLaunch", (void*)launch);
  Entry entry = (Entry)dlsym(library, "__tvm_ffi_main");
  FILE *cases = fopen(words[2], "rb"), *outputs = fopen(words[3], "wb");
  if (!entry || !cases || !outputs) fail("no entry or no files");
  int32_t head[2]; /* cases, arguments of each */
  read_exactly(head, sizeof head, cases);
  if (head[1] < 1 || head[1] > MOST_ARGUMENTS) fail("too many arguments");
  for (int32_t index = 0; index < head[0]; ++index) {
    DLTensor tensors[MOST_ARGUMENTS];
    int64_t shapes[MOST_ARGUMENTS][MOST_AXES], strides[MOST_ARGUMENTS][MOST_AXES];
    TVMFFIAny arguments[MOST_ARGUMENTS], result = {0};
    size_t bytes = 0;
    at_begin = index % 2;
    for (int32_t at = 0; at < head[1]; ++at) {
      bytes = read_argument(&tensors[at], shapes[at], strides[at], cases);
      memset(&arguments[at], 0, sizeof arguments[at]);
      arguments[at].type_index = kTVMFFIDLTensorPtr;
      arguments[at].v_ptr = &tensors[at];
    }
    if (entry(NULL, arguments, head[1], &result)) fail("the kernel returned an error");
    if (bytes && fwrite(tensors[head[1] - 1].data, bytes, 1, outputs) != 1) fail("the outputs can't be written");
  }
  return fclose(outputs) ? 2 : 0;
}
