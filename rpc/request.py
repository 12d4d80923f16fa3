"""What a device is asked and what it answers: plain values, sent as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from int8tune.results.record import Outcome

KILLED = "Killed"
"""The error class of what was ended by a SIGKILL that came from outside: Linux sends it where memory runs out."""


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


MOST_COPIES = 1024
"""How many copies the arguments of a program have at most that is timed with cold caches."""


@dataclass(frozen=True, slots=True)
class Cold:
    """Each call takes another copy of arguments, so that it does not find them where the call before left them.

    Attributes:
        least_bytes: so many copies are made that together they exceed this, `MOST_COPIES` at most.
        inputs: positions of the inputs that are copied, such as a layer's weights; empty: all, and the output.
    """

    least_bytes: int
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """How kernels are timed: up to `repeats` values each, each the mean of as many calls as fill `min_repeat_s`.

    Attributes:
        repeats: the most values of a program; all programs of a request have equally many.
        least_repeats: the fewest, where timing may end early.
        give_up_s: timing ends early when not one value of any program was below this; None: it does not. Calls that
            take much longer are not repeated to fill `min_repeat_s`.
        min_gain: timing ends early when it is settled of every program but the first whether it is faster than the
            first by this share; None: it does not.
        most_drift: the largest share by which the probe's time may change; where it changed by more, the programs are
            timed again, a few times at most; None: they are not.
        cold: which arguments calls do not share; None: they share all.
    """

    repeats: int = 5
    min_repeat_s: float = 0.002
    least_repeats: int = 3
    give_up_s: float | None = None
    min_gain: float | None = None
    most_drift: float | None = None
    cold: Cold | None = None

    @property
    def fewest(self) -> int:
        """Values that a program has at least."""
        ends_early = self.give_up_s is not None or self.min_gain is not None
        return min(self.least_repeats, self.repeats) if ends_early else self.repeats


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
        times_s: per program, one value per repeat, equally many; empty unless `OK`.
        calls_per_repeat: per program.
        observed: `probe_before_s`, `probe_after_s`, `load_1min`, `frequency_hz` where they could be read; `timings`,
            how often the programs were timed until the device was steady: the times are the steadiest of these;
            `interrupted`, how many of their repeats another process interrupted: they were made again.
        run_s: how long the session took.
        boot: what tells one start of a board's system from the next; empty for this machine, and where a board does
            not say.
    """

    outcome: Outcome
    times_s: tuple[tuple[float, ...], ...] = ()
    calls_per_repeat: tuple[int, ...] = ()
    observed: Mapping[str, float] = field(default_factory=dict)
    error_class: str = ""
    error: str = ""
    run_s: float = 0.0
    boot: str = ""

    @property
    def was_killed(self) -> bool:
        """Whether its session was killed from outside, which may be the machine's fault: it is to be run once more."""
        return self.error_class == KILLED

    @classmethod
    def lost(cls, error: Exception, run_s: float) -> Reply:
        """The answer where the device was lost."""
        return cls(Outcome.DEVICE_LOST, error_class=type(error).__name__, error=str(error), run_s=run_s)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device says of itself when its server starts.

    Attributes:
        architecture: as `uname -m` prints it.
        cpu: its name; that of the GPU, where kernels run on one.
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

    @property
    def has_gpu(self) -> bool:
        """Whether kernels run on a GPU, whose architectures are among its features."""
        return any(name.startswith("cuda_") for name in self.features)
