"""Entries for the tests of `results`: single ones with sensible fields, and a whole campaign."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from int8tune.results.analysis.roofline import LayerSize
from int8tune.results.base import Store
from int8tune.results.record import (
    ESTIMATED_BY,
    BoardEvent,
    BoardEventKind,
    Campaign,
    CampaignRun,
    Candidate,
    DeviceCheck,
    Duel,
    Estimate,
    Measurement,
    Outcome,
    Trial,
)

LAYER = "conv2d-u8s8-1x56x56x64-k3x3x64-s1-p1-float.c-u8"
TARGET = "x86-vnni"
DEVICE = "local"
STARTED = "2026-03-01T12:00:00+00:00"
ENVIRONMENT = {
    "cpu": "Intel Xeon Platinum 8272CL",
    "governor": "performance",
    "os": "Debian 12, Linux 6.1",
    "tvm": "0.27.0.post1",
    "llvm": "22.1",
    "int8tune": "0.1.0",
}


def candidate(tile: int = 1, workload: str = LAYER, target: str = TARGET) -> Candidate:
    return Candidate(workload, target, "direct", 1, {"tile": tile, "unroll": True, "order": "khw"})


def campaign(name: str = "c1", layers: dict[str, int] | None = None, network: str = "resnet18") -> Campaign:
    return Campaign(name, network, DEVICE, TARGET, "evolutionary", 7, 64, layers or {LAYER: 4}, STARTED)


def run(number: int = 0, name: str = "c1") -> CampaignRun:
    return CampaignRun(
        campaign=name,
        run=f"{number:016x}",
        host="bench-1",
        user="ada",
        command="int8tune tune resnet18 --trials 64",
        version="0.1.0",
        commit="4f" * 20,
        cpu="Intel Xeon Platinum 8272CL",
        started_at=STARTED,
    )


def board_event(board: str = "pi-1", name: str = "c1") -> BoardEvent:
    return BoardEvent(
        name, board, BoardEventKind.BAD_CANARY, 0.0021, "the canary took 2.10 times what it takes", STARTED
    )


def at(sequence: int) -> str:
    """The time of a trial's record: one a second."""
    return (datetime.fromisoformat(STARTED) + timedelta(seconds=sequence)).isoformat()


def ok(sequence: int, median_s: float = 1e-3, *, chosen: Candidate | None = None, name: str = "c1") -> Trial:
    times_s = (median_s * 0.99, median_s, median_s * 1.02)
    return Trial(
        campaign=name,
        sequence=sequence,
        candidate=chosen or candidate(sequence),
        outcome=Outcome.OK,
        measurement=Measurement(times_s, 10, {"load_1min": 0.25}),
        device=DEVICE,
        environment=ENVIRONMENT,
        started_at=STARTED,
        build_s=0.2,
        run_s=0.1,
        binary="ab" * 32,
    )


MODEL = "llvm-mca of LLVM 19 for cortex-a53"


def estimated(sequence: int, cycles: float = 2e6, *, chosen: Candidate | None = None, name: str = "c1") -> Trial:
    """A trial that was verified, but not timed."""
    measured = ok(sequence, chosen=chosen, name=name)
    environment = {**ENVIRONMENT, ESTIMATED_BY: MODEL}
    return replace(measured, measurement=None, estimate=Estimate(cycles), environment=environment)


def failed(
    sequence: int,
    outcome: Outcome = Outcome.BUILD_FAILED,
    error_class: str = "LLVMError",
    error: str = "cannot select: intrinsic %llvm.x86.avx512.vpdpbusd.512",
    *,
    chosen: Candidate | None = None,
    name: str = "c1",
) -> Trial:
    return Trial(
        campaign=name,
        sequence=sequence,
        candidate=chosen or candidate(sequence),
        outcome=outcome,
        measurement=None,
        device=DEVICE,
        environment=ENVIRONMENT,
        started_at=STARTED,
        build_s=0.2,
        error_class=error_class,
        error=error,
    )


def duel(
    a: Candidate,
    b: Candidate,
    gain: float,
    *,
    noise: float = 0.002,
    pairs: int = 20,
    name: str = "c1",
    default_s: float = 1e-3,
) -> Duel:
    """Times in pairs in which `b` is `gain` times faster than `a`, with some noise of the ratio, and drift in both."""
    rng = np.random.default_rng(pairs)
    a_times_s = default_s * rng.permutation(np.linspace(0.96, 1.04, pairs))
    b_times_s = a_times_s / gain * np.exp(rng.normal(0, noise, pairs))
    return Duel(
        campaign=name,
        workload=a.workload,
        target=a.target,
        device=DEVICE,
        a=a.id,
        b=b.id,
        a_times_s=tuple(a_times_s.tolist()),
        b_times_s=tuple(b_times_s.tolist()),
        environment=ENVIRONMENT,
        started_at=STARTED,
    )


def check(peak_ops_per_s: float = 1.152e12, device: str = DEVICE, target: str = TARGET) -> DeviceCheck:
    bandwidth = {"L1": 2.1e11, "L2": 9e10, "memory": 1.4e10}
    return DeviceCheck(device, target, peak_ops_per_s, bandwidth, 0.004, ENVIRONMENT, STARTED)


@dataclass(frozen=True, slots=True)
class SampleLayer:
    """A layer of the sample network: key, runs, multiply-adds, and the shares of peak that its search reaches."""

    workload: str
    runs: int
    macs: int
    default_share: float
    best_share: float


def _conv(size: int, channels: int, out: int, kernel: int, runs: int, shares: tuple[float, float]) -> SampleLayer:
    key = f"conv2d-u8s8-1x{size}x{size}x{channels}-k{kernel}x{kernel}x{out}-s1-p{kernel // 2}-float.c-u8"
    return SampleLayer(key, runs, size * size * channels * out * kernel * kernel, *shares)


def _depthwise(size: int, channels: int, runs: int, shares: tuple[float, float]) -> SampleLayer:
    key = f"dwconv2d-u8s8-1x{size}x{size}x{channels}-k3x3x1-s1-p1-float.c-u8"
    return SampleLayer(key, runs, size * size * channels * 9, *shares)


def sample_layers() -> list[SampleLayer]:
    """35 layers of many kinds, as a large network has them."""
    layers = [_conv(112, 32, 64, 3, 1, (0.31, 0.44))]
    for size, width in ((56, 64), (28, 128), (14, 256), (7, 512)):
        layers += [
            _conv(size, width, width, 3, 4, (0.71, 0.95)),
            _conv(size, width, width * 4, 1, 3, (0.52, 0.73)),
            _conv(size, width * 4, width, 1, 3, (0.80, 0.83)),
            _conv(size, width, width * 2, 5, 1, (0.66, 0.94)),
            _conv(size, width, width // 2, 1, 2, (0.45, 0.61)),
            _depthwise(size, width, 2, (0.09, 0.32)),
            _depthwise(size, width * 2, 1, (0.11, 0.33)),
            _conv(size, width + 32, width, 3, 1, (0.62, 0.62)),
        ]
    layers.append(SampleLayer("dense-u8s8-1x2048-o1000-float.c-u8", 1, 2048 * 1000, 0.19, 0.27))
    layers.append(SampleLayer("dense-s8s8-128x768-o3072-s32", 12, 128 * 768 * 3072, 0.74, 0.93))
    return layers


FAILURES = (
    (Outcome.BUILD_FAILED, "LLVMError", "cannot select: intrinsic %llvm.x86.avx512.vpdpbusd.512"),
    (Outcome.BUILD_TIMEOUT, "Deadline", "the build took over 20 s"),
    (Outcome.WRONG_ANSWER, "Mismatch", "12 of 200704 values differ, first at [0, 3, 17, 8]: 131, expected 130"),
    (Outcome.RUN_FAILED, "Signal", "the session ended with signal 11 (SIGSEGV)"),
    (Outcome.REJECTED, "Registers", "the tile needs 40 vector registers, the target has 32: <tile 14x2 & unroll 4>"),
)


def fill(store: Store, name: str = "resnet-night", trials_per_layer: int = 64) -> dict[str, int]:
    """Append a whole campaign over `sample_layers` with every verdict in it; return multiply-adds by workload."""
    layers = sample_layers()
    rng = np.random.default_rng(3)
    peak_ops_per_s = 1.152e12
    store.append([campaign(name, {layer.workload: layer.runs for layer in layers}, "resnet-mobile-mix")])
    store.append([check(peak_ops_per_s)])
    sequence = 0
    for place, layer in enumerate(layers):
        trials = _search(layer, place, sequence, name, peak_ops_per_s, trials_per_layer, rng)
        sequence += len(trials)
        store.append(trials)
        _append_duel(store, place, trials)
    return {layer.workload: layer.macs for layer in layers}


def _search(
    layer: SampleLayer,
    place: int,
    first: int,
    name: str,
    peak_ops_per_s: float,
    count: int,
    rng: np.random.Generator,
) -> list[Trial]:
    trials = []
    for number in range(count):
        chosen = candidate(number, layer.workload)
        fails = rng.random() < 0.12 if number else place == 30
        if fails or place == 31:
            outcome, error_class, error = FAILURES[int(rng.integers(len(FAILURES)))]
            trial = failed(first + number, outcome, error_class, error, chosen=chosen, name=name)
            trials.append(replace(trial, started_at=at(trial.sequence)))
            continue
        best = number == count * 2 // 3
        reach = layer.best_share if best else layer.default_share
        share = reach if best or not number else layer.best_share * rng.uniform(0.35, 0.98)
        if number and not best:
            share = min(share, layer.best_share * (0.6 + 0.39 * number / count))
        found = ok(first + number, 2 * layer.macs / (share * peak_ops_per_s), chosen=chosen, name=name)
        trials.append(_observed(found))
    return trials


def _observed(trial: Trial) -> Trial:
    """The trial at its time, with the probe around it, a little noisy, and now and then somebody else on the core."""
    assert trial.measurement is not None
    rng = np.random.default_rng(trial.sequence)
    probes = {f"probe_{when}_s": 2e-5 * float(rng.normal(1, 0.006)) for when in ("before", "after")}
    seen = {"load_1min": 0.25, "interrupted": float(rng.random() < 0.03) * 4, "timings": 1.0, **probes}
    return replace(trial, measurement=replace(trial.measurement, observed=seen), started_at=at(trial.sequence))


def sample_sizes() -> dict[str, LayerSize]:
    """What the sample layers compute and move, with bytes of about their size."""
    return {layer.workload: LayerSize(layer.macs, 200_000, layer.macs // 1000 + 1) for layer in sample_layers()}


def _append_duel(store: Store, place: int, trials: list[Trial]) -> None:
    if place in (30, 31, 33):
        return
    fastest = min(trials, key=_median_s)
    gain = _median_s(trials[0]) / _median_s(fastest)
    if gain > 1:
        # The medians of a small gain are from two sessions; its duel shows that there is none.
        shown, noise = (gain, 0.004) if gain > 1.05 else (0.98, 0.09)
        default_s = _median_s(trials[0])
        campaign_name = trials[0].campaign
        pair = trials[0].candidate, fastest.candidate
        store.append([duel(*pair, shown, noise=noise, name=campaign_name, default_s=default_s)])


def _median_s(trial: Trial) -> float:
    return trial.measurement.times_s[1] if trial.measurement else float("inf")
