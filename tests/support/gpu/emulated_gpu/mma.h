// In place of CUDA's `mma.h`: products of 16 x 16 x 16 of a warp, s8 by s8 to s32, by the CUDA C++ Programming Guide's "Warp
// Matrix Functions". Who has which element is nobody's business there; here a lane has half of a row.
#pragma once

#include "cuda.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

constexpr int kLanes = 32, kEdge = 16, kShare = kEdge * kEdge / kLanes;

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static_assert(M == kEdge && N == kEdge && K == kEdge, "of this size only");
  T share[kShare];
};
template <class Layout> using Data = fragment<matrix_a, 16, 16, 16, signed char, Layout>;
template <class Layout> using Weight = fragment<matrix_b, 16, 16, 16, signed char, Layout>;
using Sums = fragment<accumulator, 16, 16, 16, int>;
template <class Layout> constexpr bool kByRows = false;
template <> constexpr bool kByRows<row_major> = true;

// What lanes bring to a load or a store: all of them the same place.
template <class F, class T> struct Moved { F* own; T* place; unsigned stride; };

// PTX ISA, "Matrix Fragments for WMMA": each row begins at a multiple of the bytes that a thread gets.
template <class T> static inline void check_place(const T* place, unsigned stride) {
  if ((uintptr_t)place % (kShare * sizeof(T)) || stride % kShare) int8tune_fail("a matrix of a warp is not aligned");
}

// Calls `act(value of the fragment, value in memory)` for all elements.
template <class F, class T, class Act> static inline void move_all(void** brought, bool by_rows, Act act) {
  auto* first = (Moved<F, T>*)brought[0];
  check_place(first->place, first->stride);
  for (int lane = 0; lane < kLanes; ++lane) {
    auto* moved = (Moved<F, T>*)brought[lane];
    if (moved->place != first->place || moved->stride != first->stride) int8tune_fail("lanes move different matrices");
    for (int i = 0; i < kShare; ++i) {
      int row = (lane * kShare + i) / kEdge, column = (lane * kShare + i) % kEdge;
      act(moved->own->share[i], first->place[by_rows ? row * first->stride + column : column * first->stride + row]);
    }
  }
}

static inline void fill_fragment(Sums& to, int value) {
  for (int& own : to.share) own = value;
}

template <class Use, class Layout>
static inline void load_matrix_sync(fragment<Use, 16, 16, 16, signed char, Layout>& to, const signed char* from,
                                    unsigned stride) {
  using F = fragment<Use, 16, 16, 16, signed char, Layout>;
  Moved<F, const signed char> own{&to, from, stride};
  int8tune_together(&own, [](void** brought) {
    move_all<F, const signed char>(brought, kByRows<Layout>, [](signed char& share, signed char there) { share = there; });
  });
}

static inline void store_matrix_sync(int* to, const Sums& from, unsigned stride, layout_t layout) {
  if (layout != mem_row_major) int8tune_fail("sums are stored by rows only");
  Moved<const Sums, int> own{&from, to, stride};
  int8tune_together(&own, [](void** brought) {
    move_all<const Sums, int>(brought, true, [](int share, int& there) { there = share; });
  });
}

template <class A, class B>
static inline void mma_sync(Sums& to, const Data<A>& a, const Weight<B>& b, const Sums& c) {
  struct Product { Sums* to; const Data<A>* a; const Weight<B>* b; const Sums* c; } own{&to, &a, &b, &c};
  int8tune_together(&own, [](void** brought) {
    auto of = [&](int element) { return (Product*)brought[element / kShare]; };
    int sums[kEdge * kEdge];
    for (int at = 0; at < kEdge * kEdge; ++at) {
      unsigned sum = (unsigned)of(at)->c->share[at % kShare];
      for (int k = 0; k < kEdge; ++k) {
        int left = at / kEdge * kEdge + k, right = k * kEdge + at % kEdge;
        sum += (unsigned)(of(left)->a->share[left % kShare] * of(right)->b->share[right % kShare]);
      }
      sums[at] = (int)sum;
    }
    for (int at = 0; at < kEdge * kEdge; ++at) of(at)->to->share[at % kShare] = sums[at];
  });
}

}  // namespace wmma
}  // namespace nvcuda
