"""What PyTorch's int8 product takes for the sizes of the timed tiles: `python3 run_torch.py FOLDER RESULT`."""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path

TIMES = 30


def main(folder: Path, result: Path) -> int:
    try:
        import torch
    except ImportError as error:
        print(f"left out: {error}")
        return 0
    if not torch.cuda.is_available():
        print("left out: PyTorch finds no GPU")
        return 0
    keys = {spec["workload"] for spec in json.loads((folder / "tiles.json").read_text()) if not spec["case"]}
    found = {}
    for key in sorted(keys):
        sizes = re.fullmatch(r"dense-\w+-(\d+)x(\d+)-o(\d+)-.*", key)
        if sizes is None:
            continue
        rows, depth, channels = map(int, sizes.groups())
        data = [torch.randint(-128, 128, (rows, depth), dtype=torch.int8, device="cuda") for _ in range(2)]
        weight = torch.randint(-128, 128, (channels, depth), dtype=torch.int8, device="cuda").t()
        out = torch.empty((rows, channels), dtype=torch.int32, device="cuda")
        times_ms = []
        for turn in range(TIMES):
            begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            torch._int_mm(data[turn % 2], weight, out=out)
            done.record()
            done.synchronize()
            times_ms.append(begun.elapsed_time(done))
        found[key] = {"median_us": statistics.median(times_ms[3:]) * 1e3}
        print(f"{found[key]['median_us']:10.1f} us torch._int_mm {key}", flush=True)
        result.write_text(json.dumps({"torch": torch.__version__, "layers": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
