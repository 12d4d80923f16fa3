"""`int8tune devices check`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.cli.options import DebugOption, Format, FormatOption, TargetOption
from tuner.cli.output import aligned, emit, emit_json, say
from tuner.cli.plan import cores_in_words

if TYPE_CHECKING:
    from results.record import DeviceCheck
    from rpc.request import Capabilities

# Of all CPU features, those that decide how fast int8 can be.
INT8_FEATURES = (
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx_vnni",
    "amx_int8",
    "asimd",
    "asimddp",
    "i8mm",
    "sve",
)


def check(target: TargetOption = None, form: FormatOption = Format.TABLE, _debug: DebugOption = False) -> None:
    """Measure what one core can do.

    Its int8 peak, how fast it reads from each level of memory, and the noise.

    Example: int8tune devices check --format json
    """
    from compiler.linker import find_linker
    from tuner.cores import measuring_and_build_cores
    from tuner.device_check import measure_device

    find_linker()
    measuring, building = measuring_and_build_cores()
    say("measuring, this takes some seconds")
    device, measured = measure_device(measuring, building, target)
    features = [feature for feature in INT8_FEATURES if feature in device.features]
    if form is Format.JSON:
        cores = {"measuring_cores": list(measuring), "building_cores": list(building)}
        emit_json({**_measured(measured), "features": features, **cores})
        return
    cores_text = cores_in_words(measuring, building)
    emit(aligned([*_about(device, measured, features, cores_text), *_speeds(measured)]))


def _about(device: Capabilities, measured: DeviceCheck, features: list[str], cores: str) -> list[tuple[str, str]]:
    return [
        ("cpu", f"{device.cpu} ({device.architecture})"),
        ("target", measured.target),
        ("features", " ".join(features) or "none that matter"),
        ("cores", cores),
        ("governor", device.environment.get("governor", "unknown")),
    ]


def _speeds(measured: DeviceCheck) -> list[tuple[str, str]]:
    read = ", ".join(f"{level} {rate / 1e9:.3g}" for level, rate in measured.bandwidth_bytes_per_s.items())
    return [
        ("int8 peak", f"{measured.peak_ops_per_s / 1e9:,.0f} GOP/s of one core"),
        ("read GB/s", read),
        ("noise", f"{measured.noise:.1%} between repeats"),
    ]


def _measured(measured: DeviceCheck) -> dict[str, Any]:
    return {
        "device": measured.device,
        "target": measured.target,
        "peak_ops_per_s": measured.peak_ops_per_s,
        "bandwidth_bytes_per_s": dict(measured.bandwidth_bytes_per_s),
        "noise": measured.noise,
        "environment": dict(measured.environment),
        "started_at": measured.started_at,
    }
