"""What a device can do: its int8 peak, the bandwidth of its memories and its noise, measured through the usual door."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from int8tune.results.analysis.roofline import USUAL_CACHE_BYTES
from int8tune.results.record import CACHE_BYTES, DeviceCheck, Outcome
from int8tune.results.stats import median, spread
from int8tune.rpc.request import Capabilities, Program, Request, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.probes import MOST_DENSE_BYTES
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.builder.base import Pool
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.errors import CampaignError
from int8tune.tuner.folders import require_room

BUILD_LIMIT_S = 60.0
RUN_LIMIT_S = 30.0
# A probe whose spread is at least this is measured again, so many times in all.
QUIET, PEAK_ATTEMPTS = 0.02, 5
PEAK_TIMING = Timing(repeats=40, min_repeat_s=0.002)
# Of a memory, the moments that a session looks at follow each other.
BANDWIDTH_TIMING, MOMENTS = Timing(repeats=5, min_repeat_s=0.004), 3
# A cache's probe reads half of it, or this many times the cache before it: a virtual machine is told of caches of
# hundreds of MiB that it shares, and what is read has to be written first.
OVER_SMALLER_CACHE = 16
# A probe of main memory reads this many times the largest cache, within bounds.
MEMORY_OVER_CACHE, LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES = 4, 64 << 20, 512 << 20
# A session has what it reads in memory twice.
LIMIT_OVER_READ = 4
# What is read comes from files, the larger ones of holes; the probes' own code is much less.
CODE_BYTES = 8 << 20
# What happened once may have been the machine's fault, such as little memory.
RUN_ATTEMPTS = 2
REPEATED = frozenset({Outcome.RUN_FAILED, Outcome.DEVICE_LOST})


@dataclass(frozen=True, slots=True)
class Probes:
    """Built probes: the peak loop, and one reading loop per level of memory."""

    peak: Built
    reads: Mapping[str, Built]

    @property
    def peak_program(self) -> Program:
        assert self.peak.program is not None
        return self.peak.program


def build_probes(pool: Pool, target: Target, folder: Path, sizes: Mapping[str, int], loop: str = "peak") -> Probes:
    """Build the probes, the reading ones for the given levels and sizes in bytes.

    Args:
        loop: the peak loop, as `tuner.builder.job.Job` names it.

    Raises:
        CampaignError: one of them does not build on this target.
        NoRoomError: the disk has too little room for them.
    """
    written = sum(min(size, MOST_DENSE_BYTES) for size in sizes.values())
    require_room(folder, written + CODE_BYTES, "the check of a device")
    wanted: dict[str, str | int] = {"peak": loop, **sizes}
    for name, probe in wanted.items():
        pool.submit(Job(f"probe {name}", target, str(folder / f"probe-{name}"), BUILD_LIMIT_S, probe=probe))
    built: dict[str, Built] = {}
    deadline = time.monotonic() + BUILD_LIMIT_S * len(wanted)
    while len(built) < len(wanted) and time.monotonic() < deadline:
        for result in pool.collect(1.0):
            if result.outcome is not Outcome.OK:
                raise CampaignError(f"the device's {result.id} does not build for {target.name}: {result.error}")
            built[result.id.removeprefix("probe ")] = result
    return Probes(built["peak"], {level: built[level] for level in sorted(sizes, key=lambda level: sizes[level])})


def read_sizes(capabilities: Capabilities, memory_limit_bytes: int | None = None) -> dict[str, int]:
    """Bytes that reach each level of memory: half of a cache or less, and much more than all of them.

    Args:
        memory_limit_bytes: what a session may use, if that is little.
    """
    usual = {} if capabilities.has_gpu else USUAL_CACHE_BYTES
    caches = {**usual, **capabilities.cache_bytes}
    memory = min(max(MEMORY_OVER_CACHE * max(caches.values(), default=0), LEAST_MEMORY_BYTES), MOST_MEMORY_BYTES)
    sizes, smaller = {"memory": memory}, max(caches.values(), default=0)
    for level, size in sorted(caches.items(), key=lambda cache: cache[1]):
        sizes[level] = min(size // 2, OVER_SMALLER_CACHE * smaller)
        smaller = size
    if memory_limit_bytes is None:
        return sizes
    return {level: min(size, memory_limit_bytes // LIMIT_OVER_READ) for level, size in sizes.items()}


def check_device(
    transport: Transport,
    probes: Probes,
    device: str,
    target: Target,
    environment: Mapping[str, str],
    cache_bytes: Mapping[str, int] | None = None,
) -> DeviceCheck:
    """Run the probes on one core of the device.

    Args:
        cache_bytes: how large its caches are, where it says so: reports tell by it which one bounds a layer.

    Raises:
        CampaignError: a probe failed there.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    peak_times_s = _quiet_times_s(transport, probes.peak, PEAK_TIMING)
    bandwidth = {
        level: probe.work / median(_reading_times_s(transport, probe)) for level, probe in probes.reads.items()
    }
    return DeviceCheck(
        device=device,
        target=target.name,
        peak_ops_per_s=probes.peak.work / median(peak_times_s),
        bandwidth_bytes_per_s=bandwidth,
        noise=spread(peak_times_s),
        environment={
            **environment,
            **{f"{CACHE_BYTES}{level}": str(size) for level, size in (cache_bytes or {}).items()},
        },
        started_at=started_at,
    )


def _reading_times_s(transport: Transport, probe: Built) -> tuple[float, ...]:
    """A reading probe's times; of what is hundreds of MiB a session takes seconds to fill memory, so there is one."""
    sessions = 1 if probe.work > MOST_DENSE_BYTES else PEAK_ATTEMPTS
    return _quiet_times_s(transport, probe, BANDWIDTH_TIMING, sessions, MOMENTS)


def _quiet_times_s(
    transport: Transport, probe: Built, timing: Timing, sessions: int = PEAK_ATTEMPTS, moments: int = 1
) -> tuple[float, ...]:
    """A probe's times at the quietest of a few moments: a roof is what a core can do, not what is left of it.

    Args:
        timing: of a moment.
        sessions: at most, until a moment was quiet.
        moments: that a session looks at.
    """
    in_session, seen = replace(timing, repeats=moments * timing.repeats), []
    for _ in range(sessions):
        times_s = _times_s(transport, probe, in_session)
        seen += [times_s[at : at + timing.repeats] for at in range(0, len(times_s), timing.repeats)]
        if min(map(spread, seen)) < QUIET:
            break
    return min(seen, key=median)


def _times_s(transport: Transport, probe: Built, timing: Timing) -> tuple[float, ...]:
    assert probe.program is not None
    for _ in range(RUN_ATTEMPTS):
        reply = transport.run(Request((probe.program,), timing, RUN_LIMIT_S))
        if reply.outcome not in REPEATED:
            break
    if reply.outcome is not Outcome.OK:
        raise CampaignError(f"the device's {probe.id} ended with {reply.outcome.value}: {reply.error}")
    return reply.times_s[0]


def measure_device(
    cores: Sequence[int], build_cores: Sequence[int], profile: str | None = None
) -> tuple[Capabilities, DeviceCheck]:
    """Check a core of this machine, apart from any campaign.

    Raises:
        DeviceStartError: the device did not start.
        CampaignError: a probe does not build or run here.
        UnknownTargetError: there is no such profile, or this machine can't run it.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="int8tune-")))
        transport = stack.enter_context(LocalTransport(cores))
        capabilities = transport.start()
        target = target_for(capabilities.features, capabilities.llvm_cpu, capabilities.llvm_triple, profile)
        pool = stack.enter_context(BuildPool(build_cores, cores[-1], folder / "build-server.log"))
        probes = build_probes(pool, target, folder, read_sizes(capabilities))
        environment, caches = capabilities.environment, capabilities.cache_bytes
        return capabilities, check_device(transport, probes, "local", target, environment, caches)
