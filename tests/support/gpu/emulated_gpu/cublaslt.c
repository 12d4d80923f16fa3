/* A libcublasLt for the emulated GPU: products of int8 matrices, computed by a kernel of that GPU.

   It takes what NVIDIA's documentation of `cublasLtMatmul` allows int8 kernels and refuses everything else: sizes of
   attributes, types, the form TN, leading dimensions, alignment, a workspace that is too small. Of its four algorithms the
   first takes three times as long as the last, one is named without being able, and one is able by its name only. With
   PLAYED_ALGORITHMS=1 in the environment, the first is the only one. */

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_8I = 3, R_32I = 10, COMPUTE_32I = 72 };
enum { TRANSA = 3, TRANSB = 4, MAX_WORKSPACE_BYTES = 1 };
enum { SLOW, UNABLE, REFUSES, FAST, ALGORITHMS };

static const size_t kWorkspace = 1 << 20;

typedef struct {
  int32_t scale, transposed[2];
} Description;

typedef struct {
  int32_t element;
  uint64_t rows, columns;
  int64_t leading;
} Layout;

typedef struct {
  uint64_t data[8];
} Algorithm;

typedef struct {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Result;

typedef struct {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
} Launch;

typedef struct { /* of `emulated_gpu/gpu.cc` */
  void (*run)(const Launch* launch, void** arguments);
  void (*set_mode)(unsigned order, unsigned late, unsigned seed);
  int arguments;
} Function;

typedef union {
  uint64_t bits;
  float real;
  int32_t whole;
} Scale;

/* M, N, K, the leading dimensions and addresses of A, B and D, alpha, whether D is int32, how often it is computed */
enum { M, N, K, LDA, LDB, LDD, A, B, D, ALPHA, IS_WHOLE, TIMES, ARGUMENTS };

static void multiply(const Launch* launch, void** given) {
  uint64_t value[ARGUMENTS];
  (void)launch;
  for (int i = 0; i < ARGUMENTS; ++i) value[i] = *(uint64_t*)given[i];
  const Scale alpha = {.bits = value[ALPHA]};
  for (uint64_t time = 0; time < value[TIMES]; ++time)
    for (uint64_t n = 0; n < value[N]; ++n)
      for (uint64_t m = 0; m < value[M]; ++m) {
        const int8_t* a = (const int8_t*)value[A] + m * value[LDA];
        const int8_t* b = (const int8_t*)value[B] + n * value[LDB];
        int32_t sum = 0;
        for (uint64_t k = 0; k < value[K]; ++k) sum += a[k] * b[k];
        const uint64_t at = n * value[LDD] + m;
        if (value[IS_WHOLE]) ((int32_t*)value[D])[at] = alpha.whole * sum;
        else ((int8_t*)value[D])[at] = (int8_t)fmaxf(-128, fminf(127, nearbyintf(alpha.real * (float)sum)));
      }
}

static void* of_driver(const char* library, const char* name) { return dlsym(dlopen(library, RTLD_NOW), name); }

size_t cublasLtGetVersion(void) { return 130002; }
const char* cublasLtGetStatusName(int status) {
  return status == NOT_SUPPORTED     ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
                                     : "CUBLAS_STATUS_INVALID_VALUE";
}
int cublasLtCreate(void** handle) {
  int count = 0;
  int (*find)(int*) = (int (*)(int*))of_driver("libcudart.so.13", "cudaGetDeviceCount");
  if (find(&count) || count < 1) return NOT_INITIALIZED;
  return *handle = malloc(1), OK;
}
int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  if (compute != COMPUTE_32I || (scale != R_32F && scale != R_32I)) return INVALID_VALUE;
  Description* description = calloc(1, sizeof *description);
  description->scale = scale;
  return *made = description, OK;
}
int cublasLtMatmulDescSetAttribute(void* described, int attribute, const void* value, size_t bytes) {
  if ((attribute != TRANSA && attribute != TRANSB) || bytes != sizeof(int32_t)) return INVALID_VALUE;
  memcpy(&((Description*)described)->transposed[attribute - TRANSA], value, bytes);
  return OK;
}
int cublasLtMatmulDescDestroy(void* described) { return free(described), OK; }
int cublasLtMatrixLayoutCreate(void** made, int element, uint64_t rows, uint64_t columns, int64_t leading) {
  if (leading < (int64_t)rows) return INVALID_VALUE;
  Layout* layout = malloc(sizeof *layout);
  *layout = (Layout){element, rows, columns, leading};
  return *made = layout, OK;
}
int cublasLtMatrixLayoutDestroy(void* layout) { return free(layout), OK; }
int cublasLtMatmulPreferenceCreate(void** made) { return *made = calloc(1, sizeof(uint64_t)), OK; }
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  if (attribute != MAX_WORKSPACE_BYTES || bytes != sizeof(uint64_t)) return INVALID_VALUE;
  return memcpy(preference, value, bytes), OK;
}
int cublasLtMatmulPreferenceDestroy(void* preference) { return free(preference), OK; }

/* What the documentation demands of int8 kernels in regular order. */
static int judge(const Description* how, const Layout* a, const Layout* b, const Layout* c, const Layout* d) {
  const int32_t out = how->scale == R_32I ? R_32I : R_8I;
  if (!how->transposed[0] || how->transposed[1]) return NOT_SUPPORTED;
  if (a->element != R_8I || b->element != R_8I || c->element != out || d->element != out) return NOT_SUPPORTED;
  if (a->rows != b->rows || a->columns != d->rows || b->columns != d->columns) return INVALID_VALUE;
  if (c->rows != d->rows || c->columns != d->columns) return INVALID_VALUE;
  if (d->rows % 4 || a->rows % 4) return NOT_SUPPORTED;
  return a->leading % 4 || b->leading % 4 || c->leading % 4 || d->leading % 4 ? NOT_SUPPORTED : OK;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, const void* how, const void* a, const void* b, const void* c,
                                   const void* d, const void* preference, int wanted, Result* found, int* count) {
  if (!handle || wanted <= 0) return INVALID_VALUE;
  int status = judge(how, a, b, c, d);
  if (status) return status;
  *count = 0;
  if (getenv("PLAYED_ALGORITHMS")) wanted = atoi(getenv("PLAYED_ALGORITHMS"));
  for (uint64_t which = 0; which < ALGORITHMS && *count < wanted; ++which) {
    size_t workspace = which == SLOW ? 0 : kWorkspace;
    if (workspace > *(const uint64_t*)preference) continue;
    found[(*count)++] = (Result){.algorithm = {{which}}, .workspace = workspace, .state = which == UNABLE ? NOT_SUPPORTED : OK};
  }
  return OK;
}

static int is_placed(const void* place) { return place && (uintptr_t)place % 16 == 0; }

int cublasLtMatmul(void* handle, const void* how, const void* alpha, const void* a, const Layout* a_is, const void* b,
                   const Layout* b_is, const void* beta, const void* c, const Layout* c_is, void* d, const Layout* d_is,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
  int status = judge(how, a_is, b_is, c_is, d_is);
  if (!handle || status) return handle ? status : INVALID_VALUE;
  if (!stream || !is_placed(a) || !is_placed(b) || !is_placed(d) || c != d || *(const uint32_t*)beta) return INVALID_VALUE;
  if (algorithm->data[0] != SLOW && (workspace_bytes < kWorkspace || !is_placed(workspace))) return INVALID_VALUE;
  if (algorithm->data[0] == UNABLE || algorithm->data[0] == REFUSES) return NOT_SUPPORTED;
  uint64_t values[ARGUMENTS] = {d_is->rows, d_is->columns, a_is->rows, (uint64_t)a_is->leading, (uint64_t)b_is->leading,
                                (uint64_t)d_is->leading, (uint64_t)a, (uint64_t)b, (uint64_t)d};
  void* arguments[ARGUMENTS];
  Function function = {multiply, NULL, ARGUMENTS};
  Launch launch = {{1, 1, 1}, {1, 1, 1}, 0, stream};
  memcpy(&values[ALPHA], alpha, 4);
  values[IS_WHOLE] = d_is->element == R_32I;
  values[TIMES] = algorithm->data[0] == SLOW ? 3 : 1;
  for (int i = 0; i < ARGUMENTS; ++i) arguments[i] = &values[i];
  int (*enqueue)(const Launch*, void*, void**, void**) = of_driver("libcuda.so.1", "cuLaunchKernelEx");
  return enqueue(&launch, &function, arguments, NULL) ? INVALID_VALUE : OK;
}
