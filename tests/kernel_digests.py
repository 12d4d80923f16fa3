"""Digests of kernels' code, to show that a change of this library changes none: `python -m tests.kernel_digests FILE`.

For each template and each profile that it takes: the default configs of plain and odd layers, and some drawn ones, the
same in every run. With `--against OLD` it compares with what an earlier run wrote: each line of difference is a kernel
that changed (`!`), that is no longer there (`-`) or that is new (`+`), and the exit code is 3.

A digest is one of all the assembly that LLVM makes, or of a GPU's machine code, without what only names things. Where
NVIDIA's compiler is missing, a GPU's kernel has the digest of its CUDA C++, which compares with no other.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from int8tune.compiler.toolchain import nvrtc
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.registry import TEMPLATES, template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import PROFILE_NAMES
from int8tune.schedules.template import Template
from int8tune.schedules.workload import Workload, parse_workload
from tests.support.kernels.assembly import digest
from tests.support.kernels.golden import CPU_LAYERS, GPU_LAYERS, cuda_text, llvm_lines
from tests.support.kernels.layers import ODD, PLAIN
from tests.support.run.probes import any_target

DRAWN = 3
CHANGED = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A template on a profile with a layer: a process digests its kernels."""

    template: str
    profile: str
    key: str


def main(arguments: list[str] | None = None) -> int:
    given = _parsed(arguments)
    old = read_digests(given.against) if given.against else None
    jobs = [job for job in all_jobs() if job.template.startswith(given.template)]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        new = {name: found for digests in pool.imap_unordered(digests_of, jobs) for name, found in digests.items()}
    if given.file:
        given.file.write_text("".join(f"{found} {name}\n" for name, found in sorted(new.items())))
    print(f"{len(new)} kernels, {len({(job.template, job.profile) for job in jobs})} pairs of template and profile")
    if old is None:
        return 0
    asked = {name: found for name, found in old.items() if name.startswith(given.template)}
    lines = differences(asked, new)
    print("\n".join(lines) or f"each is that of {given.against}")
    return CHANGED if lines else 0


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kernel_digests", description="Digests of kernels' code.")
    parser.add_argument("file", type=Path, nargs="?", help="where to write them")
    parser.add_argument("--against", type=Path, help="a file of an earlier run, to compare with")
    parser.add_argument("--template", default="", help="how the templates' names begin, such as `x86.`; default: all")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes; default: the cores")
    given = parser.parse_args(arguments)
    if given.against and not given.against.is_file():
        parser.error(f"no file of an earlier run: {given.against}")
    return given


def read_digests(path: Path) -> dict[str, str]:
    """What an earlier run wrote: digests by the kernels' names."""
    pairs = (line.split(" ", 1) for line in path.read_text().splitlines())
    return {name: found for found, name in pairs}


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """A line for each kernel that is not the same in both."""
    return [
        f"{'+' if name not in old else '-' if name not in new else '!'} {name}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def all_jobs() -> list[Job]:
    """Those that take long come first, so that processes end together."""
    return [
        Job(template.name, profile, key)
        for layers in (CPU_LAYERS, GPU_LAYERS, (*PLAIN.values(), *ODD))
        for key in layers
        for template in TEMPLATES
        for profile in PROFILE_NAMES
        if (profile in GPU_PROFILES, layers) not in ((True, CPU_LAYERS), (False, GPU_LAYERS))
        and template.rejects(parse_workload(key), any_target(profile)) is None
    ]


def digests_of(job: Job) -> dict[str, str]:
    """The digests of a job's kernels, by a name that says which they are."""
    template, workload = template_named(job.template), parse_workload(job.key)
    found = {}
    for config in _configs(template, workload, job):
        knobs = " ".join(f"{name}={value}" for name, value in config.items())
        name = f"{job.template} {job.profile} {job.key} {knobs}"
        found[name] = _digest(template, workload, job.profile, config)
    return found


def _configs(template: Template, workload: Workload, job: Job) -> Iterator[Mapping[str, Value]]:
    space = template.space(workload, any_target(job.profile))
    yield space.default
    if job.key in (*CPU_LAYERS, *GPU_LAYERS):
        # Each job draws for itself: no other one changes what it draws.
        seed = hashlib.sha256(f"{job.template} {job.profile} {job.key}".encode()).digest()
        rng = np.random.default_rng(list(seed))
        for _ in range(DRAWN):
            yield space.sample(rng)


def _digest(template: Template, workload: Workload, profile: str, config: Mapping[str, Value]) -> str:
    target = any_target(profile)
    if target.gpu is None:
        return digest(llvm_lines(template, workload, target, config))
    source = cuda_text(template, workload, target, config)
    if nvrtc.missing():
        return f"source:{digest([source])}"
    return hashlib.sha256(nvrtc.compile_cubin(source, target.gpu.arch)).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
