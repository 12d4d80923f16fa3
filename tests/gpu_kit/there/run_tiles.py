"""Tiles of kernels without TVM: `python3 run_tiles.py FOLDER RESULT [--exact-only]`, with the standard library alone.

Small cases first, each five times, bit for bit against the oracle's outputs; then times of large products, on values
that nobody checks. A line for each, and a JSON file that is whole after each.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from cuda_driver import CudaError, Gpu

TURNS = 5
# Of a large product: how long it is timed at least, and how often.
LEAST_S, LEAST_TIMES, MOST_TIMES, WARM_UP = 0.3, 7, 200, 3
SETS = 2


def main(folder: Path, result: Path, exact_only: bool) -> int:
    specs = json.loads((folder / "tiles.json").read_text())
    begun = time.monotonic()
    try:
        gpu = Gpu()
    except CudaError as error:
        print(f"error: {error}")
        return 4
    print(f"{gpu.name}, {len(specs)} tiles, {time.monotonic() - begun:.1f} s to the first context", flush=True)
    found: list[dict[str, Any]] = []
    for spec in sorted(specs, key=lambda one: not one["case"]):
        if exact_only and not spec["case"]:
            continue
        try:
            said = _check(gpu, folder, spec) if spec["case"] else _time(gpu, folder, spec)
        except CudaError as error:
            said = {"error": str(error)}
        found.append({"tile": spec["tile"], "workload": spec["workload"], **said})
        print(_line(found[-1]), flush=True)
        result.write_text(json.dumps({"gpu": gpu.name, "tiles": found}, indent=1))
        if "error" in said:
            break  # a context with an error takes nothing more
    failed = [one for one in found if one.get("wrong") or "error" in one]
    checked = sum("wrong" in one for one in found)
    print(f"{checked} tiles checked, {'all exact' if not failed else f'{len(failed)} FAILED'}", flush=True)
    return int(bool(failed))


def _line(said: dict[str, Any]) -> str:
    name = f"{said['tile']:28s} {said['workload']}"
    if "error" in said:
        return f"FAILED {name}: {said['error']}"
    if "wrong" in said:
        return f"{'WRONG ' if said['wrong'] else 'exact '} {name} {said['wrong'] or ''}"
    return f"{said['median_us']:10.1f} us {said['tops']:6.0f} TOPS {name}"


def _check(gpu: Gpu, folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """How many values are wrong, with the output's memory filled otherwise each time."""
    expected = (folder / spec["case"] / "expected").read_bytes()
    inputs = {
        name: gpu.allocate((folder / spec["case"] / name).read_bytes()) for name in spec["order"] if name != "out"
    }
    out, wrong = gpu.allocate(bytes(len(expected))), 0
    with gpu.function((folder / spec["cubin"]).read_bytes(), spec["kernel"], spec["shared_bytes"]) as function:
        for turn in range(TURNS):
            gpu.write(out, bytes([0xA5 ^ turn]) * len(expected))
            pointers = [{**inputs, "out": out}[name] for name in spec["order"]]
            gpu.launch(function, spec["grid"], spec["threads"], spec["shared_bytes"], pointers)
            gpu.wait()
            found = gpu.read(out, len(expected))
            wrong += 0 if found == expected else sum(a != b for a, b in zip(found, expected, strict=True))
    gpu.free([*inputs.values(), out])
    return {"wrong": wrong, "values": TURNS * len(expected)}


def _time(gpu: Gpu, folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """Median seconds of a launch between two events, over arrays in turn."""
    draw = random.Random(spec["tile"])
    arrays = [{name: gpu.allocate(draw.randbytes(spec["bytes"][name])) for name in spec["order"]} for _ in range(SETS)]
    for one in arrays:  # scales as of a layer, of which random bits would be anything
        gpu.write(one["rescale"], (folder / spec["rescale"]).read_bytes())
        gpu.write(one["params"], (folder / spec["params"]).read_bytes())
    times_s: list[float] = []
    with gpu.function((folder / spec["cubin"]).read_bytes(), spec["kernel"], spec["shared_bytes"]) as function:
        begun, done = gpu.event(), gpu.event()
        while len(times_s) < WARM_UP + MOST_TIMES and (sum(times_s) < LEAST_S or len(times_s) < WARM_UP + LEAST_TIMES):
            pointers = [arrays[len(times_s) % SETS][name] for name in spec["order"]]
            gpu.call("cuEventRecord", begun, None)
            gpu.launch(function, spec["grid"], spec["threads"], spec["shared_bytes"], pointers)
            gpu.call("cuEventRecord", done, None)
            times_s.append(max(gpu.elapsed_s(begun, done), 1e-9))
    for one in arrays:
        gpu.free(list(one.values()))
    median_s = statistics.median(times_s[WARM_UP:])
    return {"median_us": median_s * 1e6, "best_us": min(times_s) * 1e6, "tops": spec["ops"] / median_s / 1e12}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), "--exact-only" in sys.argv[3:]))
