"""`nvcuda::wmma` as a header for NVRTC, as far as TVM's int8 schedules use it: 16 x 16 x 16, s8 to s32.

NVIDIA's own `mma.h` comes with a toolkit, not with NVRTC, and wraps the same built-in functions, which the compiler
knows without a header. Names and meaning: CUDA C++ Programming Guide, "Warp Matrix Functions"; the built-in functions:
clang's `BuiltinsNVPTX`.
"""

from __future__ import annotations

MMA_H = """
namespace nvcuda { namespace wmma {
struct matrix_a; struct matrix_b; struct accumulator; struct row_major; struct col_major;
enum layout_t { mem_row_major, mem_col_major };
template <class Layout> struct order;
template <> struct order<row_major> { static constexpr int value = 0; };
template <> struct order<col_major> { static constexpr int value = 1; };
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment;
template <class Layout> struct fragment<matrix_a, 16, 16, 16, signed char, Layout> { int words[2]; };
template <class Layout> struct fragment<matrix_b, 16, 16, 16, signed char, Layout> { int words[2]; };
template <> struct fragment<accumulator, 16, 16, 16, int> { int words[8]; };
template <class Layout> using data = fragment<matrix_a, 16, 16, 16, signed char, Layout>;
template <class Layout> using weight = fragment<matrix_b, 16, 16, 16, signed char, Layout>;
using sums = fragment<accumulator, 16, 16, 16, int>;

__device__ __forceinline__ void fill_fragment(sums& to, int value) {
#pragma unroll
  for (int i = 0; i < 8; ++i) to.words[i] = value;
}
template <class Layout>
__device__ __forceinline__ void load_matrix_sync(data<Layout>& to, const signed char* from, unsigned stride) {
  __imma_m16n16k16_ld_a_s8(to.words, (const int*)from, stride, order<Layout>::value);
}
template <class Layout>
__device__ __forceinline__ void load_matrix_sync(weight<Layout>& to, const signed char* from, unsigned stride) {
  __imma_m16n16k16_ld_b_s8(to.words, (const int*)from, stride, order<Layout>::value);
}
__device__ __forceinline__ void store_matrix_sync(int* to, const sums& from, unsigned stride, layout_t layout) {
  if (layout == mem_row_major) __imma_m16n16k16_st_c_i32(to, from.words, stride, 0);
  else __imma_m16n16k16_st_c_i32(to, from.words, stride, 1);
}
template <class A, class B>
__device__ __forceinline__ void mma_sync(sums& to, const data<A>& a, const weight<B>& b, const sums& c) {
  __imma_m16n16k16_mma_s8(to.words, a.words, b.words, c.words, 2 * order<A>::value + order<B>::value, 0);
}
} }
"""
