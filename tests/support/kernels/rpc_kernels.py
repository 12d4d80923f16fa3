"""Kernels for the tests of `rpc`: `output = input + 1` on 4 x 8 x 8 bytes, right and faulty, and their cases."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi.libinfo
from tvm import te

from int8tune.rpc.request import Case, Program, Request, Timing

SHAPE = (4, 8, 8)
BRIEF = Timing(repeats=2, min_repeat_s=0.0001)

_SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <tvm/ffi/c_api.h>

static uint8_t* data(const TVMFFIAny* any) {
  char* object = (char*)any->v_ptr;
  DLTensor* tensor = (DLTensor*)(any->type_index == kTVMFFIDLTensorPtr ? object : object + sizeof(TVMFFIObject));
  return (uint8_t*)tensor->data + tensor->byte_offset;
}

#define KERNEL(NAME, ...)                                                                          \
  int __tvm_ffi_##NAME(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {      \
    static int calls = 0;                                                                          \
    uint8_t *in = data(&args[0]), *out = data(&args[1]);                                           \
    int size = 256;                                                                                \
    ++calls;                                                                                       \
    (void)self, (void)count, (void)result, (void)in, (void)out, (void)size;                        \
    __VA_ARGS__;                                                                                   \
    for (int i = 0; i < size; ++i) out[i] = in[i] + 1;                                             \
    return 0;                                                                                      \
  }

static void daemonize(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) { signal(SIGTERM, SIG_IGN); for (;;) sleep(1); }
    _exit(0);
  }
}

static void hand_on(void) {  /* to a child, and again: none lives long enough to be found */
  if (fork() == 0) {
    setsid();
    for (int i = 0; i < 500; ++i) if (fork() != 0) _exit(0);
    for (;;) sleep(1);
  }
}

static void* burn(void* nothing) { for (volatile int turns = 0;; ++turns) if (!turns && nothing) return nothing; }
static void burn_in_threads(void) {
  pthread_t thread;
  for (int i = 0; i < 2; ++i) if (pthread_create(&thread, NULL, burn, NULL)) abort();
}
static void burn_in_fork(void) { if (fork() == 0) burn(NULL); }
static void burn_in_session(void) { if (fork() == 0) { setsid(); burn(NULL); } }
static void burn_as_daemon(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) { signal(SIGTERM, SIG_IGN); signal(SIGHUP, SIG_IGN); burn(NULL); }
    _exit(0);
  }
}

static void write_to_all(void) { for (int fd = 3; fd < 256; ++fd) if (write(fd, "noise", 5) < 0) continue; }
static void close_all(void) { for (int fd = 3; fd < 256; ++fd) close(fd); }
static void hoard(void) { for (;;) memset(malloc(1 << 24), 1, 1 << 24); }

static char* volatile kept;
static void hoard_together(void) {  /* each of them stays below a limit of 1 GiB */
  for (int i = 0; i < 8; ++i) {
    if (fork() == 0) { kept = memset(malloc(1 << 28), 1, 1 << 28); for (;;) sleep(1); }
  }
  for (;;) sleep(1);
}

static double age_s(int pid) {
  char path[32], stat[1024] = "";
  double now_s = 0;
  unsigned long long start = 0;
  FILE* file = fopen("/proc/uptime", "r");
  if (!file || fscanf(file, "%lf", &now_s) != 1 || fclose(file)) abort();
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  file = fopen(path, "r");
  if (!file || !fgets(stat, sizeof stat, file) || fclose(file)) abort();
  char* field = strrchr(stat, ')');  /* behind the name, which is the second field */
  for (int i = 2; field && i < 22; ++i) field = strchr(field + 1, ' ');
  if (!field || sscanf(field, "%llu", &start) != 1) abort();
  return now_s - (double)start / (double)sysconf(_SC_CLK_TCK);
}

KERNEL(good)
KERNEL(segfault, *(volatile int*)8 = 0)
KERNEL(aborts, fputs("first line\nsecond \033[31mline", stderr); abort())
KERNEL(traps, __builtin_trap())
#ifdef __aarch64__
KERNEL(dot_product, __asm__ volatile(".inst 0x4e809400" ::: "v0"))  // sdot v0.4s, v0.16b, v0.16b
#endif
KERNEL(leaves, exit(0))
KERNEL(hangs, for (;;) {})
KERNEL(prints, for (int i = 0; i < 2000; ++i) puts("{\"done\": {}}"); fflush(stdout))
KERNEL(floods, for (;;) { puts("x"); fputs("x", stderr); })
KERNEL(past_end, out[256] ^= 0x55)
KERNEL(before_start, out[-3] ^= 0x55)
KERNEL(does_nothing, size = 0)
KERNEL(skips_last, size = 255)
KERNEL(wrong_value, size = 0; for (int i = 0; i < 256; ++i) out[i] = in[i] + 1 + (i == 129))
KERNEL(wrong_later, if (calls > 3) in[7] += 1)
KERNEL(idle_later, if (calls > 3) size = 0)
KERNEL(daemonizes, if (calls == 1) daemonize())
KERNEL(hands_on, if (calls == 1) hand_on())
KERNEL(daemonizes_and_hangs, daemonize(); for (;;) {})
KERNEL(burns_in_threads, if (calls == 1) burn_in_threads())
KERNEL(burns_in_fork, if (calls == 1) burn_in_fork())
KERNEL(burns_in_session, if (calls == 1) burn_in_session())
KERNEL(burns_as_daemon, if (calls == 1) burn_as_daemon())
KERNEL(burns_and_crashes, burn_in_fork(); burn_as_daemon(); abort())
KERNEL(hoards, hoard())
KERNEL(hoards_in_children, hoard_together())
KERNEL(makes_noise, write_to_all())
KERNEL(closes_all, close_all())
KERNEL(raises, TVMFFIErrorSetRaisedFromCStr("ValueError", "no\nsuch shape"); return -1)
KERNEL(stops_server, if (calls == 1) kill(getppid(), SIGSTOP))
KERNEL(kills_server, if (calls == 1) kill(getppid(), SIGKILL))
KERNEL(daemonizes_and_kills_server, if (calls == 1) { daemonize(); usleep(50000); kill(getppid(), SIGKILL); })
KERNEL(takes_a_while, usleep(2000))
KERNEL(slows_down_once, usleep(calls > 10 && calls <= 16 ? 10000 : 2000))
KERNEL(remembers, static uint8_t* last[8];
       for (int i = 0; i < 8; ++i) if (last[i] == in) { usleep(2000); break; }
       last[calls % 8] = in)
KERNEL(slows_down, usleep(1000 * calls))
KERNEL(slower_each_second, static double s = -1; if (s < 0) s = age_s(getppid()); usleep((int)(1000 * (1 + s))))
"""


@dataclass(frozen=True, slots=True)
class Kernels:
    """A library with all the kernels above, and three cases."""

    library: Path
    sha256: str
    cases: tuple[Case, ...]

    def program(self, entry: str) -> Program:
        return Program(str(self.library), self.sha256, entry, self.cases)

    def request(self, *entries: str, run_limit_s: float = 10.0, probe: str = "", timing: Timing = BRIEF) -> Request:
        programs = tuple(self.program(entry) for entry in entries)
        return Request(programs, timing, run_limit_s, self.program(probe) if probe else None)


def build_kernels(folder: Path, compiler: str = "cc") -> Kernels:
    source, library = folder / "kernels.c", folder / "kernels.so"
    source.write_text(_SOURCE, encoding="utf-8")
    includes = (tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path())
    options = ["-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Werror", *(f"-I{path}" for path in includes)]
    subprocess.run([compiler, *options, "-o", str(library), str(source)], check=True, timeout=60)
    return Kernels(library, sha256_of(library), tuple(write_case(folder, index) for index in range(3)))


def build_with_tvm(folder: Path, kernels: Kernels) -> Program:
    """The same kernel, as the compiler makes it."""
    data = te.placeholder(SHAPE, "uint8", name="data")
    output = te.compute(SHAPE, lambda *index: data(*index) + tvm.tirx.const(1, "uint8"), name="output")
    library = folder / "compiled.so"
    function = te.create_prim_func([data, output]).with_attr("global_symbol", "increment")
    tvm.compile(tvm.IRModule({"increment": function}), target="llvm").export_library(str(library))
    return Program(str(library), sha256_of(library), "increment", kernels.cases)


def write_case(folder: Path, index: int) -> Case:
    given, expected = folder / f"given{index}.npy", folder / f"expected{index}.npy"
    values = np.random.default_rng(index).integers(0, 256, SHAPE, dtype=np.uint8)
    np.save(given, values)
    np.save(expected, values + np.uint8(1))
    return Case((str(given),), str(expected))


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
