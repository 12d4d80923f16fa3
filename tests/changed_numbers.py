"""Models with other numbers beside their own runtimes: `python -m tests.changed_numbers MODEL... [--minutes M]`.

Each model in turn has other scales, zero points, weights and biases (`tests/support/models/changed_numbers.py`), is
compiled, and compared on six samples, bit for bit. A difference is printed with its seed, and so is an error that no
user may see. What the runtime refuses, and what is refused in a line, counts as refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import int8tune as it
from int8tune.compiler.errors import ModelError
from int8tune.tuner.errors import BenchError
from tests.support.models.changed_numbers import Rng, changed_onnx, changed_tflite

SAMPLES = 6
CHANGES: dict[str, Callable[[bytes, Rng], bytes]] = {".onnx": changed_onnx, ".tflite": changed_tflite}
SAME, REFUSED = "same", "refused"


def outcome(model: Path, seed: int, folder: Path) -> str:
    """`SAME`, `REFUSED`, or what is wrong with a model whose numbers were changed with a seed."""
    path = folder / f"changed{model.suffix}"
    path.write_bytes(CHANGES[model.suffix](model.read_bytes(), np.random.default_rng(seed)))
    try:
        found = it.accuracy(path, count=SAMPLES, seed=seed, results=folder)
    except (ModelError, BenchError):
        return REFUSED
    except Exception as error:  # whatever it is, no user may see it
        return repr(error)
    if found.is_exact:
        return SAME
    return ", ".join(f"{each.name}: {each.differing} of {each.values}" for each in found.outputs if each.differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="models without islands (.onnx, .tflite)")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts, end, seed = {SAME: 0, REFUSED: 0, "wrong": 0}, time.monotonic() + 60 * arguments.minutes, arguments.seed
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            model = arguments.models[seed % len(arguments.models)]
            found = outcome(model, seed, Path(folder))
            counts[found if found in counts else "wrong"] += 1
            if found not in counts:
                print(f"{model}, seed {seed}: {found}", flush=True)
            seed += 1
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
