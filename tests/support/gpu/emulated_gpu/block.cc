// A kernel's blocks one after the other on this machine's CPU, or those of a cluster beside each other; their threads are
// contexts that run from barrier to barrier. It is linked into each kernel's image (`gpu.cc`).
//
// - Warps run forwards, backwards or in random order, and so do the lanes of a warp. What one may do before another one
//   gets its turn it does, so that a missing barrier shows in one of these orders.
// - Blocks of a cluster run as far as they come without each other.
// - Asynchronous copies arrive at once, or as late as they may: at the wait that covers them. Until then there are other
//   bytes. Shared memory begins with such bytes, too.
// - Copies that a barrier in shared memory waits for arrive at once, or when that is all it still waits for.
// - Products of four warps, which read shared memory by themselves, do so at once, or at the wait that covers them.
// - Shared memory ends at a page that can't be touched.

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "cuda.h"

namespace {

constexpr int kWarp = 32;
constexpr size_t kStack = 64 << 10, kLocals = 2 << 10, kPage = 4096, kAlignment = 1024;
// Rounds in which no thread comes any further: in random order a warp may have no turn.
constexpr size_t kPatience = 100;
constexpr int kGroup = 4 * kWarp;
enum Wait { kReady, kBarrier, kCluster, kMatrices, kProduct, kTogether, kGroupProducts, kPhase, kTurn, kDone };
const char* const kWaits[] = {"ready", "a barrier", "its cluster", "a load of matrices", "a product", "what its warp does together",
                              "products of four warps", "a barrier's phase", "its turn", "done"};

struct Copy { char* to; const char* from; int bytes, width; };

// A product of four warps: a thread's part of it. A thread's products are in groups, which it waits for.
struct GroupProduct {
  int* sums;
  const int* words;  // its registers, where data is not in shared memory
  const char *data, *weight;
  int columns, row_bytes, kinds, added;
};

// A barrier in shared memory. Arrivals that wait for copies, and copies whose bytes it counts, may be late.
struct Barrier {
  int count, pending;
  long bytes;
  unsigned phase;
  std::vector<std::vector<Copy>> late_arrivals;
  std::vector<Copy> late_bytes;
};

struct Thread {
  dim3 index;
  size_t block;     // in its cluster
  size_t arrivals;  // at the cluster's barrier
  Wait wait;
  bool started;
  jmp_buf at;
  ucontext_t start;
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
  std::vector<GroupProduct> products;
  std::vector<size_t> product_groups;
  size_t awaited;
  // What it waits for: the phase of a barrier, or a turn.
  const void* barrier;
  unsigned parity;
  int turn;
  // What it brings to an instruction of its warp.
  int* results;
  const void* first;
  const void* second;
  int kinds;
  void (*act)(void**);
  void* brought;
};

std::vector<Thread> threads;
std::map<const void*, Barrier> barriers;
std::map<std::pair<size_t, int>, int> arrived;  // at turns of blocks
// Of each block of a cluster, and of the one that runs.
std::vector<dim3> block_indices;
std::vector<char*> shareds;
std::vector<bool> has_sent;  // bytes to another block, since it waited for the cluster
size_t block_threads;
std::vector<char*> stacks;
Thread* current;
char* shared;
jmp_buf scheduler;
void (*call)(void*);
void* context;
unsigned order = 0, copies_are_late = 1, random_state = 1;

[[noreturn]] void fail(const char* what) {
  dim3 block = block_indices[current ? current->block : 0];
  fprintf(stderr, "emulated GPU: block (%u, %u, %u), thread %u: %s\n", block.x, block.y, block.z,
          current ? current->index.x : 0, what);
  _exit(3);
}

unsigned draw() { return random_state = random_state * 1664525u + 1013904223u; }

void suspend(Wait wait) {
  current->wait = wait;
  if (_setjmp(current->at) == 0) _longjmp(scheduler, 1);
}

void entry() {
  call(context);
  current->wait = kDone;
  _longjmp(scheduler, 1);
}

void resume(Thread& thread) {
  current = &thread;
  if (_setjmp(scheduler) != 0) return;
  if (thread.started) _longjmp(thread.at, 1);
  thread.started = true;
  setcontext(&thread.start);
}

// Each matrix is read at once: its rows of 16 bytes lie in all banks of shared memory, or the read takes longer.
void check_banks(Thread* lanes) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    unsigned used = 0;
    for (int row = 0; row < 8; ++row) used |= 1u << ((const char*)lanes[8 * matrix + row].first - shared) / 16 % 8;
    if (used != 255) fail("rows of a matrix share banks");
  }
}

void load_matrices(Thread* lanes) {
  check_banks(lanes);
  for (int lane = 0; lane < kWarp; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix) {
      const char* row = (const char*)lanes[8 * matrix + lane / 4].first;
      if ((uintptr_t)row % 16) fail("a matrix's row is not aligned");
      memcpy(&lanes[lane].results[matrix], row + 4 * (lane % 4), 4);
    }
}

int value(int word, int byte, bool is_signed) {
  return is_signed ? (int)(int8_t)(word >> 8 * byte) : (int)(uint8_t)(word >> 8 * byte);
}

// Fragments by the PTX ISA's "Matrix Fragments for mma.m16n8k32".
void multiply(Thread* lanes) {
  bool is_data_signed = lanes[0].kinds & 1, is_weight_signed = lanes[0].kinds & 2;
  int data[16][32], weight[32][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    int group = lane / 4, in_group = lane % 4;
    for (int i = 0; i < 16; ++i) {
      int row = (i % 8 < 4) ? group : group + 8, column = in_group * 4 + (i & 3) + (i < 8 ? 0 : 16);
      data[row][column] = value(((const int*)lanes[lane].first)[i / 4], i & 3, is_data_signed);
    }
    for (int i = 0; i < 8; ++i) {
      int row = in_group * 4 + (i & 3) + (i < 4 ? 0 : 16);
      weight[row][group] = value(((const int*)lanes[lane].second)[i / 4], i & 3, is_weight_signed);
    }
  }
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      int row = i < 2 ? lane / 4 : lane / 4 + 8, column = lane % 4 * 2 + (i & 1);
      unsigned sum = (unsigned)lanes[lane].results[i];
      for (int k = 0; k < 32; ++k) sum += (unsigned)(data[row][k] * weight[k][column]);
      lanes[lane].results[i] = (int)sum;
    }
}

// A byte of a matrix in shared memory, by the PTX ISA's "Shared Memory Matrix Layout": rows lie one after the other, and
// the bits of an address that say which 16 bytes of a row it is in are changed by those from bit 7 on.
int swizzled_byte(const char* matrix, int row, int byte, int row_bytes, bool is_signed) {
  size_t at = (size_t)(matrix - shared) + (size_t)row * row_bytes + byte;
  at ^= (at >> 7 & (row_bytes / 16 - 1)) << 4;
  return is_signed ? (int)(int8_t)shared[at] : (int)(uint8_t)shared[at];
}

// A byte of a row of data in registers: of the four lanes that share the row.
int byte_of_words(Thread* group, size_t index, int lane, int half, int k, bool is_signed) {
  int word = group[lane / 4 * 4 + k % 16 / 4].products[index].words[k / 16 * 2 + half];
  return is_signed ? (int)(int8_t)(word >> k % 4 * 8) : (int)(uint8_t)(word >> k % 4 * 8);
}

void multiply_group(Thread* group, size_t index) {
  const GroupProduct& of = group[0].products[index];
  if ((uintptr_t)shared % kAlignment) fail("shared memory is not aligned for matrices of four warps");
  for (const char* matrix : {of.words ? of.weight : of.data, of.weight})
    if ((matrix - shared) / of.row_bytes % 8) fail("a matrix of four warps does not begin with a whole pattern");
  std::vector<int> weight(of.columns * 32);
  for (int column = 0; column < of.columns; ++column)
    for (int k = 0; k < 32; ++k)
      weight[column * 32 + k] = swizzled_byte(of.weight, column, k, of.row_bytes, of.kinds & 2);
  for (int lane = 0; lane < kGroup; ++lane) {
    const GroupProduct& own = group[lane].products[index];
    if (own.data != of.data || own.weight != of.weight || own.kinds != of.kinds || own.columns != of.columns ||
        own.added != of.added || !own.words != !of.words)
      fail("threads of four warps multiply different matrices");
    for (int half = 0; half < 2; ++half) {
      int row = lane / kWarp * 16 + half * 8 + lane % kWarp / 4, data[32];
      for (int k = 0; k < 32; ++k)
        data[k] = of.words ? byte_of_words(group, index, lane, half, k, of.kinds & 1)
                           : swizzled_byte(of.data, row, k, of.row_bytes, of.kinds & 1);
      for (int eight = 0; eight < of.columns / 8; ++eight)
        for (int i = 0; i < 2; ++i) {
          const int* column = &weight[(eight * 8 + lane % 4 * 2 + i) * 32];
          unsigned sum = own.added ? (unsigned)own.sums[eight * 4 + half * 2 + i] : 0;
          for (int k = 0; k < 32; ++k) sum += (unsigned)(data[k] * column[k]);
          own.sums[eight * 4 + half * 2 + i] = (int)sum;
        }
    }
  }
}

// Lets four warps go on that all wait for the first so many of their products.
bool release_group(Thread* group) {
  for (int lane = 0; lane < kGroup; ++lane)
    if (group[lane].wait != kGroupProducts || group[lane].awaited != group[0].awaited) return false;
  for (size_t index = 0; index < group[0].awaited; ++index) multiply_group(group, index);
  for (int lane = 0; lane < kGroup; ++lane) {
    auto& products = group[lane].products;
    products.erase(products.begin(), products.begin() + group[0].awaited);
    group[lane].wait = kReady;
  }
  return true;
}

void act_together(Thread* lanes) {
  void* brought[kWarp];
  for (int lane = 0; lane < kWarp; ++lane) brought[lane] = lanes[lane].brought;
  lanes[0].act(brought);
}

// Lets a warp go on whose threads all wait for one instruction of it.
bool release_warp(Thread* lanes) {
  Wait wait = lanes[0].wait;
  if (wait != kMatrices && wait != kProduct && wait != kTogether) return false;
  for (int lane = 1; lane < kWarp; ++lane) {
    if (lanes[lane].wait != wait) return false;
    if (wait == kTogether ? lanes[lane].act != lanes[0].act : lanes[lane].kinds != lanes[0].kinds) return false;
  }
  wait == kMatrices ? load_matrices(lanes) : wait == kProduct ? multiply(lanes) : act_together(lanes);
  for (int lane = 0; lane < kWarp; ++lane) lanes[lane].wait = kReady;
  return true;
}

// Lets threads go on that all wait for each other: `count` of them, from the first on.
bool release_all(size_t first, size_t count, Wait wait) {
  for (size_t i = first; i < first + count; ++i)
    if (threads[i].wait != wait) return false;
  for (size_t i = first; i < first + count; ++i) threads[i].wait = kReady;
  return true;
}

// Lets threads go on which wait for as many arrivals of each thread of the cluster as there are own ones.
bool release_cluster() {
  size_t least = threads[0].arrivals;
  for (const Thread& thread : threads) least = std::min(least, thread.arrivals);
  bool moved = false;
  for (Thread& thread : threads) {
    if (thread.wait != kCluster || thread.arrivals > least) continue;
    thread.wait = kReady;
    has_sent[thread.block] = false;
    moved = true;
  }
  return moved;
}

bool has_ended(size_t block) {
  for (size_t i = block * block_threads; i < (block + 1) * block_threads; ++i)
    if (threads[i].wait != kDone) return false;
  return true;
}

void deliver(const Copy& copy) {
  memcpy(copy.to, copy.from, copy.bytes);
  memset(copy.to + copy.bytes, 0, copy.width - copy.bytes);
}

Barrier& barrier_at(const void* place) {
  auto found = barriers.find(place);
  if (found == barriers.end()) fail("a barrier that was never begun");
  return found->second;
}

void end_phase(Barrier& barrier) {
  if (barrier.pending < 0) fail("more arrive at a barrier than it waits for");
  if (barrier.pending || barrier.bytes) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
}

// Brings what is late, if a barrier waits for nothing else.
void bring_late(Barrier& barrier) {
  long bytes = 0;
  for (const Copy& copy : barrier.late_bytes) bytes += copy.width;
  if (barrier.pending != (int)barrier.late_arrivals.size() || barrier.bytes != bytes) return;
  for (const auto& copies : barrier.late_arrivals)
    for (const Copy& copy : copies) deliver(copy);
  for (const Copy& copy : barrier.late_bytes) deliver(copy);
  barrier.late_arrivals.clear();
  barrier.late_bytes.clear();
  barrier.pending = 0;
  barrier.bytes = 0;
  end_phase(barrier);
}

// Lets threads go on whose barrier has come so far, or whose turn it is.
bool release_waiting() {
  bool moved = false;
  for (Thread& thread : threads) {
    if (thread.wait == kPhase) {
      Barrier& barrier = barrier_at(thread.barrier);
      if ((barrier.phase & 1) == thread.parity) bring_late(barrier);
      if ((barrier.phase & 1) == thread.parity) continue;
    } else if (thread.wait != kTurn || arrived[{thread.block, thread.turn}] >= 0) {
      continue;
    }
    thread.wait = kReady;
    moved = true;
  }
  for (auto& [turn, count] : arrived) count = std::max(count, 0);
  return moved;
}

// The lanes of a warp, each as far as it comes; whether one came any further.
bool run_lanes(Thread* lanes, size_t count) {
  size_t start = order == 2 ? draw() % count : 0;
  bool moved = false;
  for (size_t turn = 0; turn < count; ++turn) {
    size_t index = order == 1 ? count - 1 - turn : (start + turn) % count;
    if (lanes[index].wait != kReady) continue;
    resume(lanes[index]);
    moved = true;
  }
  return moved;
}

// Threads of the same block from this one on.
size_t left_in_block(size_t first) { return block_threads - first % block_threads; }

// A warp up to a barrier; in random order, for a while.
bool run_warp(size_t first) {
  size_t count = std::min<size_t>(kWarp, left_in_block(first));
  Thread* lanes = &threads[first];
  bool moved = false;
  for (unsigned turns = order == 2 ? draw() >> 24 : ~0u; turns > 0; --turns) {
    bool ran = run_lanes(lanes, count);
    if (count == kWarp) ran |= release_warp(lanes);
    if (!ran) break;
    moved = true;
  }
  return moved;
}

// Four warps, or what there is of them, up to a barrier; in random order, one turn each.
bool run_group(size_t first) {
  shared = shareds[threads[first].block];
  size_t count = std::min<size_t>(4, (left_in_block(first) + kWarp - 1) / kWarp), start = order == 2 ? draw() % count : 0;
  bool moved = false;
  for (bool ran = true; ran;) {
    ran = false;
    for (size_t turn = 0; turn < count; ++turn) {
      size_t index = order == 1 ? count - 1 - turn : (start + turn) % count;
      ran |= run_warp(first + index * kWarp);
    }
    if (first + kGroup <= threads.size()) ran |= release_group(&threads[first]);
    moved |= ran;
    if (order == 2) break;
  }
  return moved;
}

// A block as far as it comes without the others; in random order, for a while. Whether it came any further.
bool run_block(size_t block) {
  size_t groups = (block_threads + kGroup - 1) / kGroup, first = block * block_threads;
  bool moved = false;
  for (bool ran = true; ran;) {
    size_t start = order == 2 ? draw() % groups : 0;
    ran = false;
    for (size_t turn = 0; turn < groups; ++turn) {
      size_t index = order == 1 ? groups - 1 - turn : (start + turn) % groups;
      ran |= run_group(first + index * kGroup);
    }
    ran |= release_waiting() | release_all(first, block_threads, kBarrier);
    moved |= ran;
    if (order == 2 && (draw() >> 24) < 64) break;
  }
  return moved;
}

// All blocks, one after the other; whether one came any further.
bool run_blocks() {
  size_t blocks = shareds.size(), start = order == 2 ? draw() % blocks : 0;
  bool moved = false;
  for (size_t turn = 0; turn < blocks; ++turn)
    moved |= run_block(order == 1 ? blocks - 1 - turn : (start + turn) % blocks);
  return moved;
}

void run_cluster(size_t shared_bytes) {
  barriers.clear();
  arrived.clear();
  has_sent.assign(shareds.size(), false);
  for (char* own : shareds)
    for (size_t i = 0; i < shared_bytes; ++i) own[i] = (char)(draw() >> 24);
  for (size_t i = 0; i < threads.size(); ++i) {
    Thread& thread = threads[i];
    thread.wait = kReady;
    thread.started = false;
    thread.arrivals = 0;
    thread.open.clear();
    thread.groups.clear();
    thread.products.clear();
    thread.product_groups.clear();
    // What registers have that nobody wrote.
    memset(stacks[i] + kStack - kLocals, 0x5a, kLocals);
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = stacks[i];
    thread.start.uc_stack.ss_size = kStack;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, entry, 0);
  }
  for (size_t idle = 0; idle < kPatience;) {
    bool moved = run_blocks() | release_cluster();
    size_t done = 0;
    for (Thread& thread : threads) done += thread.wait == kDone;
    if (done == threads.size()) break;
    idle = moved ? 0 : idle + 1;
  }
  for (Thread& thread : threads) {
    current = &thread;
    if (thread.wait != kDone) fail((std::string("waits for ever, for ") + kWaits[thread.wait]).c_str());
    if (has_sent[thread.block]) fail("ends while what it sends may still be read");
  }
}

// A block's shared memory, which ends at a page that can't be touched.
char* mapped_shared(size_t bytes) {
  size_t pages = (bytes + kPage - 1) / kPage * kPage;
  char* mapped = (char*)mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(mapped + pages, kPage, PROT_NONE);
  return mapped + (pages - bytes) / kAlignment * kAlignment;
}

// A launch is a process, which ends with it: nothing is given back.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, unsigned cluster) {
  block_threads = block.x * block.y * block.z;
  if (grid.z % cluster) fail("the grid is not made of whole clusters");
  threads = std::vector<Thread>(cluster * block_threads);
  block_indices.resize(cluster);
  for (unsigned i = 0; i < cluster; ++i) shareds.push_back(mapped_shared(shared_bytes));
  for (size_t i = 0; i < threads.size(); ++i) {
    size_t own = i % block_threads;
    threads[i].index = {(unsigned)own % block.x, (unsigned)own / block.x % block.y, (unsigned)own / block.x / block.y};
    threads[i].block = i / block_threads;
    stacks.push_back((char*)mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  for (unsigned z = 0; z < grid.z; z += cluster)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        for (unsigned i = 0; i < cluster; ++i) block_indices[i] = {x, y, z + i};
        run_cluster(shared_bytes);
      }
  shareds.clear();
  for (char* stack : stacks) munmap(stack, kStack);
  stacks.clear();
}

void arrive_at_turn(int turn, int count) {
  // Less than zero: all are there, and those who wait may go on.
  int& there = arrived[{current->block, turn}];
  if (++there == count) there = -1;
}

// Begins a copy that a barrier waits for.
void copy_bytes(const Copy& copy, const void* barrier) {
  if ((uintptr_t)copy.to % 16 || (uintptr_t)copy.from % 16 || copy.bytes % 16) fail("a copy of bytes is not aligned");
  for (int i = 0; i < copy.bytes; ++i) copy.to[i] = (char)(draw() >> 24);
  if (copies_are_late) return barrier_at(barrier).late_bytes.push_back(copy);
  deliver(copy);
  barrier_at(barrier).bytes -= copy.bytes;
  end_phase(barrier_at(barrier));
}

void begin_product(const GroupProduct& product) {
  current->products.push_back(product);
  if (copies_are_late) return;
  current->awaited = 1;
  suspend(kGroupProducts);
}

}  // namespace

extern "C" {

void int8tune_emulate(unsigned thread_order, unsigned late, unsigned seed) {
  order = thread_order;
  copies_are_late = late;
  random_state = seed;
}

void int8tune_fail(const char* what) { fail(what); }

const dim3* int8tune_thread() { return &current->index; }
const dim3* int8tune_block() { return &block_indices[current->block]; }
void int8tune_barrier() { suspend(kBarrier); }
void* int8tune_shared() { return shareds[current->block]; }
void int8tune_arrive_at_cluster() { ++current->arrivals; }
void int8tune_await_cluster() { suspend(kCluster); }

void int8tune_send_bytes(void* to, const void* from, int bytes, void* barrier, int block) {
  if (has_ended(block)) fail("sends to a block that has ended");
  has_sent[current->block] = true;
  auto there = [&](const void* place) { return shareds[block] + ((const char*)place - shareds[current->block]); };
  copy_bytes({there(to), (const char*)from, bytes, bytes}, there(barrier));
}

void int8tune_begin_copy(void* to, const void* from, int bytes, int width) {
  if ((uintptr_t)to % width || (bytes && (uintptr_t)from % width)) fail("a copy is not aligned");
  Copy copy{(char*)to, (const char*)from, bytes, width};
  if (!copies_are_late) return deliver(copy);
  for (int i = 0; i < width; ++i) copy.to[i] = (char)(draw() >> 24);
  current->open.push_back(copy);
}

void int8tune_end_copies() {
  current->groups.push_back(current->open);
  current->open.clear();
}

void int8tune_wait_groups(int groups) {
  auto& waiting = current->groups;
  while ((int)waiting.size() > groups) {
    for (const Copy& copy : waiting.front()) deliver(copy);
    waiting.erase(waiting.begin());
  }
}

void int8tune_begin_barrier(void* barrier, int count) {
  if ((uintptr_t)barrier % 8) fail("a barrier is not aligned");
  if (!barriers.emplace(barrier, Barrier{count, count, 0, 0, {}, {}}).second) fail("a barrier is begun again");
}

void int8tune_arrive(void* barrier) {
  --barrier_at(barrier).pending;
  end_phase(barrier_at(barrier));
}

void int8tune_expect(void* barrier, int bytes) {
  barrier_at(barrier).bytes += bytes;
  int8tune_arrive(barrier);
}

void int8tune_arrive_with_copies(void* barrier) {
  if (!copies_are_late) return int8tune_arrive(barrier);
  barrier_at(barrier).late_arrivals.push_back(current->open);
  current->open.clear();
}

void int8tune_wait_for_phase(void* barrier, int parity) {
  current->barrier = barrier;
  current->parity = (unsigned)parity;
  suspend(kPhase);
}

void int8tune_copy_bytes(void* to, const void* from, int bytes, void* barrier) {
  copy_bytes({(char*)to, (const char*)from, bytes, bytes}, barrier);
}

void int8tune_pass_turn(int turn, int threads) { arrive_at_turn(turn, threads); }

void int8tune_await_turn(int turn, int threads) {
  arrive_at_turn(turn, threads);
  current->turn = turn;
  suspend(kTurn);
}

void int8tune_load_matrices(int* registers, const void* row) {
  current->results = registers;
  current->first = row;
  current->kinds = 0;
  suspend(kMatrices);
}

void int8tune_multiply(int* sums, const int* data, const int* weight, int is_data_signed, int is_weight_signed) {
  current->results = sums;
  current->first = data;
  current->second = weight;
  current->kinds = is_data_signed | is_weight_signed << 1;
  suspend(kProduct);
}

void int8tune_together(void* brought, void (*act)(void**)) {
  current->brought = brought;
  current->act = act;
  suspend(kTogether);
}

void int8tune_multiply_group(int* sums, const void* data, const void* weight, int columns, int row_bytes, int kinds,
                             int added) {
  begin_product({sums, nullptr, (const char*)data, (const char*)weight, columns, row_bytes, kinds, added});
}

void int8tune_multiply_words(int* sums, const int* words, const void* weight, int columns, int row_bytes, int kinds,
                             int added) {
  begin_product({sums, words, nullptr, (const char*)weight, columns, row_bytes, kinds, added});
}

void int8tune_end_products() {
  auto& groups = current->product_groups;
  groups.push_back(current->products.size() - std::accumulate(groups.begin(), groups.end(), size_t(0)));
}

void int8tune_wait_products(int groups) {
  auto& waiting = current->product_groups;
  for (current->awaited = 0; (int)waiting.size() > groups; waiting.erase(waiting.begin()))
    current->awaited += waiting.front();
  suspend(kGroupProducts);
}

void int8tune_launch(dim3 grid, dim3 block, size_t shared_bytes, unsigned cluster, void (*kernel)(void*),
                     void* arguments) {
  call = kernel;
  context = arguments;
  run_grid(grid, block, shared_bytes, cluster);
}

}  // extern "C"
