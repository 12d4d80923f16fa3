"""What a device is asked and what it answers: plain values, sent as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from results.record import Outcome


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a kernel: `.npy` files of its input arguments, in order, and of the output it must produce.

    The output is the kernel's last argument; the device allocates it.
    """

    inputs: tuple[str, ...]
    expected: str


@dataclass(frozen=True, slots=True)
class Program:
    """A built kernel with its cases. The first case is the one that is timed.

    Attributes:
        library: path of the shared library.
        sha256: of that file; the device refuses any other content.
        entry: name of the function in it.
    """

    library: str
    sha256: str
    entry: str
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """How a kernel is timed: `repeats` values, each the mean of as many calls as fill `min_repeat_s`."""

    repeats: int = 5
    min_repeat_s: float = 0.002


@dataclass(frozen=True, slots=True)
class Request:
    """Verify every program bit for bit on all of its cases, then time them in turn, repeat by repeat.

    Attributes:
        probe: the device's reference loop, timed just before and after; what it drifts, the device drifts.
        run_limit_s: after this long the session is killed.
    """

    programs: tuple[Program, ...]
    timing: Timing
    run_limit_s: float
    probe: Program | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """How a request ended.

    Attributes:
        outcome: `OK`, `WRONG_ANSWER`, `RUN_FAILED`, `RUN_TIMEOUT` or `DEVICE_LOST`.
        times_s: per program, one value per repeat; empty unless `OK`.
        calls_per_repeat: per program.
        observed: `probe_before_s`, `probe_after_s`, `load_1min`, `frequency_hz` where they could be read.
        run_s: how long the session took.
    """

    outcome: Outcome
    times_s: tuple[tuple[float, ...], ...] = ()
    calls_per_repeat: tuple[int, ...] = ()
    observed: Mapping[str, float] = field(default_factory=dict)
    error_class: str = ""
    error: str = ""
    run_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device says of itself when its server starts.

    Attributes:
        architecture: as `uname -m` prints it.
        features: CPU features by the names Linux gives them (`avx512_vnni`, `asimddp`).
        llvm_cpu: LLVM's name of the CPU, such as `cascadelake`, `znver5`.
        cores: the cores that a session may use.
        cache_bytes: size of `L1`, `L2`, `L3` as one core sees them, where known.
        environment: CPU, governor, OS and versions, for the records.
    """

    architecture: str
    cpu: str
    llvm_cpu: str
    llvm_triple: str
    features: frozenset[str]
    cores: tuple[int, ...]
    cache_bytes: Mapping[str, int]
    environment: Mapping[str, str]
