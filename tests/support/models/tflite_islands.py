"""TFLite models of float operators behind a quantized input, and what LiteRT makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.model import read_model
from int8tune.schedules.target import Target
from tests.support.models.compiled import compile_once
from tests.support.models.tflite_models import Writer, values_of
from tests.support.run.probes import host_target

Array = npt.NDArray[Any]
SHAPE = (2, 5, 8, 6)
# LiteRT's own DEQUANTIZE is exact for powers of two only.
FORM = (0.03125, -7)

Build = Callable[["IslandWriter"], int]


class IslandWriter(Writer):
    """A model whose input `x` is s8 and dequantized: `data` is what its float operators read."""

    def __init__(self, shape: Sequence[int] = SHAPE) -> None:
        super().__init__()
        self.stored = self.input("x", "s8", shape, *FORM)
        self.data = self.apply("DEQUANTIZE", [self.stored], shape)

    def apply(
        self,
        word: str,
        inputs: Sequence[Any],
        shape: Sequence[int],
        options: str = "",
        kind: str = "f32",
        outputs: Sequence[tuple[str, Sequence[int]]] = (),
        **fields: Any,
    ) -> int:
        """An operator on tensors and constants; its first output, which further ones follow."""
        taken = [self._constant(each) if isinstance(each, np.ndarray) else each for each in inputs]
        made = self.tensor(f"{word}.{len(self.operators)}", kind, shape)
        more = [self.tensor(f"{word}.{len(self.operators)}.{at}", *form) for at, form in enumerate(outputs, 1)]
        self.operator(word, taken, [made, *more], options, fields.pop("version", 1), **fields)
        return made

    def _constant(self, array: Array) -> int:
        kind = {"f": "f32", "i": "s32", "b": "bool"}[array.dtype.kind]
        return self.constant(f"c{len(self.tensors)}", kind, array)


def stored_feed(shape: Sequence[int] = SHAPE, seed: int = 0) -> Array:
    """Stored values of the input, both ends of the type among them."""
    made: Array = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    made.reshape(-1)[:2] = -128, 127
    return made


def compiled(file: bytes, folder: Path, target: Target | None = None) -> CompiledModel:
    """A model of a file, compiled by this process."""
    target = target or host_target()
    library = folder / "model.so"
    path = folder / "islands.tflite"
    path.write_bytes(file)
    compile_once(read_model(path), target, library)
    return CompiledModel(library)


def outputs_of(file: bytes, folder: Path, feeds: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Our outputs and those of LiteRT's own kernels, by name: not all operators have reference kernels there."""
    model = compiled(file, folder)
    made = model.run([feeds[form["name"]] for form in model.about.inputs])
    names = [form["name"] for form in model.about.outputs]
    theirs = values_of(file, feeds, is_reference=False)
    return dict(zip(names, made, strict=True)), {name: theirs[name] for name in names}
