// What a kernel in CUDA C++ finds when it is compiled for this machine's CPU: the language's own names, and in place of
// the device functions of `schedules/intrinsics/cuda.py` what they are described to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#ifndef INT8TUNE_CLUSTER
#define INT8TUNE_CLUSTER 1
#endif
// A block runs when the one before it is done.
#define __shared__ static

#define INT8TUNE_VECTORS(T, name)                                                                          \
  struct name##2 { T x, y; } __attribute__((aligned(2 * sizeof(T))));                                      \
  struct name##3 { T x, y, z; };                                                                           \
  struct name##4 { T x, y, z, w; } __attribute__((aligned(4 * sizeof(T))));                                \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                        \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
INT8TUNE_VECTORS(signed char, char)
INT8TUNE_VECTORS(unsigned char, uchar)
INT8TUNE_VECTORS(short, short)
INT8TUNE_VECTORS(unsigned short, ushort)
INT8TUNE_VECTORS(int, int)
INT8TUNE_VECTORS(unsigned, uint)
INT8TUNE_VECTORS(float, float)
struct dim3 { unsigned x, y, z; };

// Of tests/support/gpu/emulated_gpu/block.cc.
extern "C" {
const dim3* int8tune_thread();
const dim3* int8tune_block();
void int8tune_barrier();
void* int8tune_shared();
void int8tune_begin_copy(void* to, const void* from, int bytes, int width);
void int8tune_end_copies();
void int8tune_wait_groups(int groups);
void int8tune_load_matrices(int* registers, const void* row);
void int8tune_multiply(int* sums, const int* data, const int* weight, int is_data_signed, int is_weight_signed);
void int8tune_together(void* brought, void (*act)(void**));
[[noreturn]] void int8tune_fail(const char* what);
void int8tune_multiply_group(int* sums, const void* data, const void* weight, int columns, int row_bytes, int kinds,
                             int added);
void int8tune_multiply_words(int* sums, const int* words, const void* weight, int columns, int row_bytes, int kinds,
                             int added);
void int8tune_begin_barrier(void* barrier, int count);
void int8tune_arrive(void* barrier);
void int8tune_expect(void* barrier, int bytes);
void int8tune_arrive_with_copies(void* barrier);
void int8tune_wait_for_phase(void* barrier, int parity);
void int8tune_copy_bytes(void* to, const void* from, int bytes, void* barrier);
void int8tune_pass_turn(int turn, int threads);
void int8tune_await_turn(int turn, int threads);
void int8tune_end_products();
void int8tune_wait_products(int groups);
void int8tune_await_cluster();
void int8tune_arrive_at_cluster();
void int8tune_send_bytes(void* to, const void* from, int bytes, void* barrier, int block);
void int8tune_launch(dim3 grid, dim3 block, size_t shared_bytes, unsigned cluster, void (*call)(void*), void* context);
}

#define threadIdx (*int8tune_thread())
#define blockIdx (*int8tune_block())
static inline void __syncthreads() { int8tune_barrier(); }

template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __saturatef(float value) { return value > 0.0f ? value < 1.0f ? value : 1.0f : 0.0f; }
static inline int __viaddmin_s32_relu(int value, int addend, int high) {
  int sum = (int)((unsigned)value + (unsigned)addend);
  return max(min(sum, high), 0);
}
static inline int __byte_perm(int low, int high, int order) {
  uint64_t bytes = (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= (uint32_t)(bytes >> 8 * (order >> 4 * i & 7) & 255) << 8 * i;
  return (int)result;
}

template <class A, class B> static inline int int8tune_dot(int data, int weight, int total) {
  unsigned sum = (unsigned)total;
  for (int i = 0; i < 4; ++i) sum += (unsigned)((int)(A)(data >> 8 * i) * (int)(B)(weight >> 8 * i));
  return (int)sum;
}
static inline int int8tune_dot_uu(int a, int b, int c) { return int8tune_dot<uint8_t, uint8_t>(a, b, c); }
static inline int int8tune_dot_us(int a, int b, int c) { return int8tune_dot<uint8_t, int8_t>(a, b, c); }
static inline int int8tune_dot_su(int a, int b, int c) { return int8tune_dot<int8_t, uint8_t>(a, b, c); }
static inline int int8tune_dot_ss(int a, int b, int c) { return int8tune_dot<int8_t, int8_t>(a, b, c); }

static inline void int8tune_copy_4(void* to, const void* from, int bytes) { int8tune_begin_copy(to, from, bytes, 4); }
static inline void int8tune_copy_8(void* to, const void* from, int bytes) { int8tune_begin_copy(to, from, bytes, 8); }
static inline void int8tune_copy_16(void* to, const void* from, int bytes) { int8tune_begin_copy(to, from, bytes, 16); }
static inline void int8tune_commit() { int8tune_end_copies(); }
static inline void int8tune_wait_0() { int8tune_wait_groups(0); }
static inline void int8tune_wait_1() { int8tune_wait_groups(1); }
static inline void int8tune_wait_2() { int8tune_wait_groups(2); }
static inline void int8tune_wait_3() { int8tune_wait_groups(3); }
static inline void int8tune_wait_4() { int8tune_wait_groups(4); }
static inline void int8tune_wait_5() { int8tune_wait_groups(5); }
static inline void int8tune_wait_6() { int8tune_wait_groups(6); }

static inline void int8tune_multiply_uu(int* s, const int* a, const int* b) { int8tune_multiply(s, a, b, 0, 0); }
static inline void int8tune_multiply_us(int* s, const int* a, const int* b) { int8tune_multiply(s, a, b, 0, 1); }
static inline void int8tune_multiply_su(int* s, const int* a, const int* b) { int8tune_multiply(s, a, b, 1, 0); }
static inline void int8tune_multiply_ss(int* s, const int* a, const int* b) { int8tune_multiply(s, a, b, 1, 1); }

static inline float int8tune_here(float value) { return value; }
static inline int int8tune_pack_bytes(int a, int b, int c, int d, int added) {
  int values[] = {a, b, c, d};
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= (uint32_t)max(min(values[i], 255), 0) << 8 * i;
  return (int)(word + (uint32_t)added);
}
static inline void int8tune_store_words_1(void* to, int a) { *(int*)to = a; }
static inline void int8tune_store_words_2(void* to, int a, int b) { *(int2*)to = {a, b}; }
static inline void int8tune_store_words_4(void* to, int a, int b, int c, int d) { *(int4*)to = {a, b, c, d}; }

static inline int int8tune_as_launched(int count) { return count; }
static inline void int8tune_publish() {}
static inline void int8tune_show_barriers() {}
#define INT8TUNE_REGISTERS(count)                           \
  static inline void int8tune_give_registers_##count() {}   \
  static inline void int8tune_take_registers_##count() {}
INT8TUNE_REGISTERS(56)
INT8TUNE_REGISTERS(104)
INT8TUNE_REGISTERS(152)
INT8TUNE_REGISTERS(224)
static inline void int8tune_await_cluster_of_2() { int8tune_await_cluster(); }
static inline void int8tune_await_cluster_of_4() { int8tune_await_cluster(); }
static inline void int8tune_await_cluster_of_8() { int8tune_await_cluster(); }
static inline void int8tune_begin_group() {}
static inline void int8tune_end_group() { int8tune_end_products(); }
static inline void int8tune_wait_group_0() { int8tune_wait_products(0); }
static inline void int8tune_wait_group_1() { int8tune_wait_products(1); }
static inline void int8tune_wait_group_2() { int8tune_wait_products(2); }
#define INT8TUNE_GROUP(letters, kinds, columns, row_bytes)                                                          \
  static inline void int8tune_multiply_group_##letters##_##columns##_##row_bytes(int* s, const void* a, const void* b, \
                                                                                 int added) {                       \
    int8tune_multiply_group(s, a, b, columns, row_bytes, kinds, added);                                             \
  }                                                                                                                 \
  static inline void int8tune_multiply_words_##letters##_##columns##_##row_bytes(int* s, const int* a, const void* b, \
                                                                                 int added) {                       \
    int8tune_multiply_words(s, a, b, columns, row_bytes, kinds, added);                                             \
  }
#define INT8TUNE_DEPTHS(letters, kinds, columns) \
  INT8TUNE_GROUP(letters, kinds, columns, 32)    \
  INT8TUNE_GROUP(letters, kinds, columns, 64)    \
  INT8TUNE_GROUP(letters, kinds, columns, 128)
#define INT8TUNE_COLUMNS(letters, kinds) \
  INT8TUNE_DEPTHS(letters, kinds, 32)     \
  INT8TUNE_DEPTHS(letters, kinds, 64)     \
  INT8TUNE_DEPTHS(letters, kinds, 96)     \
  INT8TUNE_DEPTHS(letters, kinds, 128)    \
  INT8TUNE_DEPTHS(letters, kinds, 160)    \
  INT8TUNE_DEPTHS(letters, kinds, 192)    \
  INT8TUNE_DEPTHS(letters, kinds, 256)   
INT8TUNE_COLUMNS(uu, 0)
INT8TUNE_COLUMNS(su, 1)
INT8TUNE_COLUMNS(us, 2)
INT8TUNE_COLUMNS(ss, 3)

// `kernel`'s launch, as the driver calls it: pointers to its arguments.
template <class... A, size_t... I>
static inline void int8tune_call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*(A*)arguments[I]...);
}
template <class... A>
static inline void int8tune_run(void (*kernel)(A...), dim3 grid, dim3 block, size_t shared_bytes, void** arguments) {
  struct Context { void (*kernel)(A...); void** arguments; } context{kernel, arguments};
  int8tune_launch(grid, block, shared_bytes, INT8TUNE_CLUSTER, [](void* raw) {
    Context* of = (Context*)raw;
    int8tune_call(of->kernel, of->arguments, std::index_sequence_for<A...>{});
  }, &context);
}
template <class... A> constexpr int int8tune_arguments(void (*)(A...)) { return sizeof...(A); }

// The beginning of CUlaunchConfig.
struct int8tune_Launch { unsigned grid[3], block[3], shared_bytes; };
