"""Runs kernels on arrays between pages that can't be touched: `python guarded_memory.py PROFILE SAMPLES KEY...`.

All templates of the profile that take a layer, each with its default config, with all ways to treat the image's border,
and with as many other configs as samples. A kernel that reads or writes outside its arrays ends the process with
SIGSEGV. Used by `test_schedules_bounds`.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm

from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.registry import templates_for
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.workload import Workload, parse_workload
from tests.support.kernels.kernels import Built, Emulated, build
from tests.support.run.probes import host_target

Array = npt.NDArray[Any]
Place = Callable[[Array], Array]

# TVM's own arrays start at multiples of this, and its code relies on it.
ALIGNMENT = 64
PROT_NONE = 0
CANARY = 0xA5


def _guarded_pages(size: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Memory whose first and last page can't be touched, and the size of a page."""
    page = mmap.PAGESIZE
    total = (-(-size // page) + 2) * page
    memory = np.frombuffer(mmap.mmap(-1, total), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    for offset in (0, total - page):
        if libc.mprotect(ctypes.c_void_p(memory.ctypes.data + offset), ctypes.c_size_t(page), PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return memory, page


def before_a_guard(array: Array) -> Array:
    """A copy that ends where the guard begins, as far as its alignment allows."""
    memory, page = _guarded_pages(array.nbytes)
    start = (len(memory) - page - array.nbytes) // ALIGNMENT * ALIGNMENT
    return _copied(array, memory, start)


def behind_a_guard(array: Array) -> Array:
    """A copy that begins where the guard ends."""
    memory, page = _guarded_pages(array.nbytes)
    return _copied(array, memory, page)


def _copied(array: Array, memory: npt.NDArray[np.uint8], start: int) -> Array:
    page = mmap.PAGESIZE
    memory[page:-page] = CANARY
    copy: Array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def run_guarded(entry: Any, inputs: tuple[Array, ...], output: Array, place: Place) -> Array:
    placed = [place(np.ascontiguousarray(array)) for array in (*inputs, output)]
    entry(*(tvm.runtime.from_dlpack(array) for array in placed))
    return placed[-1]


def configs(space: ConfigSpace, samples: int) -> Iterator[Mapping[str, Value]]:
    """The default one, those that treat the image's border otherwise, and random ones."""
    yield space.default
    for knob in space.knobs:
        for choice in knob.choices if knob.name == "border" else ():
            changed = {**space.default, knob.name: choice}
            if changed != space.default and space.fault(changed) is None:
                yield changed
    rng = np.random.default_rng(0)
    for _ in range(samples):
        yield space.sample(rng)


def check(workload: Workload, built: Built, what: str) -> None:
    """Run a kernel between guards, and compare its outputs; an emulated one always runs between guards."""
    if isinstance(built, Emulated):
        if wrong := built.wrong_cases():
            raise SystemExit(f"wrong outputs: {what} {wrong}")
        return
    for _, operands in adversarial_operands(workload, 0)[:2]:
        expected = reference(workload, operands).reshape(built.kernel.output_shape)
        inputs = kernel_inputs(workload, built.kernel, operands)
        for place in (before_a_guard, behind_a_guard):
            output = run_guarded(built.entry, inputs, np.invert(expected), place)
            if not np.array_equal(output, expected):
                raise SystemExit(f"wrong outputs: {what}")


def main(profile: str, samples: int, keys: list[str]) -> None:
    target = host_target(profile)
    for key in keys:
        workload = parse_workload(key)
        taking = templates_for(workload, target)
        # Generic ones are tested for their own profile, and where no other takes a layer.
        for template in [found for found in taking if not found.name.startswith("generic.")] or taking:
            for config in configs(template.space(workload, target), samples):
                what = f"{key} {template.name} {config}"
                print(what, flush=True)
                check(workload, build(workload, target, config, template), what)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
