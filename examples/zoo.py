"""Models of other libraries, quantized in the usual ways: how many compile, how many are right, how fast they are.

    python examples/zoo.py make zoo                  # zoo/FORM/MODEL.onnx, random weights; needs torch and what follows
    python examples/zoo.py make zoo --only tflite-   # zoo/FORM/MODEL.tflite: Keras's; needs tensorflow alone
    python examples/zoo.py table zoo -o zoo/table.md # compiles each, compares its outputs with ONNX Runtime's
    python examples/zoo.py times zoo --only u8s8/    # times each beside what else reads it, on one thread
    python examples/zoo.py times zoo -- --threads 2  # with options of `int8tune bench`
    python examples/zoo.py roundings zoo             # how far ONNX Runtime is from itself by the last bits of numbers

`make` has an environment of its own: `pip install torch torchvision timm transformers onnx onnxruntime`; the form of
NNCF is made where `nncf` is installed, PyTorch's own (PT2E) where `torchao` and `onnxscript` are, those of other tools
(`zoo_tools.py`) where `--only` names them, such as `--only brevitas/`. Keras's models, of
TFLite, need `pip install tensorflow`. Small pictures are enough to see what compiles; `make --side 224 zoo-224` makes
the same models for pictures of the usual size. `table`, `times` and `roundings` need `int8tune[models,oracle,peers]`. A
second run of each does only what is missing. `--only TEXT` takes models or forms whose FORM/NAME has the text.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import zoo_tools
from zoo_keras import keras_entries
from zoo_models import CALIBRATION_SAMPLES, SIDE, Entry, entries
from zoo_tables import SAMPLES, roundings, table, times

OPSET = 17
LAYERS = ["Conv", "MatMul", "Gemm"]
Form = Callable[[Path, Path, Entry], None]
"""Writes a form of a model: from its float file, into another one, of this entry."""


def export(entry: Entry, path: Path) -> None:
    """The float model as ONNX."""
    import torch

    model, data = made(entry)
    torch.onnx.export(model, (data,), str(path), opset_version=OPSET, input_names=["x"], dynamo=False)


def made(entry: Entry) -> tuple[Any, Any]:
    """The float model, with the mean and deviation of random data in its normalizations, and an input."""
    import torch

    torch.manual_seed(0)
    shape = entry.shape
    model = entry.make()
    data = torch.randint(0, entry.tokens, shape) if entry.tokens else torch.randn(shape)
    if not entry.tokens:
        with torch.no_grad():
            model.train()(torch.randn(4, *shape[1:]))
    return of_one_output(model.eval()).eval(), data


def of_one_output(model: Any) -> Any:
    """A model whose output is one tensor: the first one, of what others are packed in."""
    from torch import nn

    class First(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            made = self.model(x)
            while not hasattr(made, "shape"):
                made = next(iter(made.values())) if isinstance(made, Mapping) else made[0]
            return made

    return First()


def static(**options: Any) -> Form:
    def quantize(source: Path, output: Path, entry: Entry) -> None:
        from onnxruntime import quantization

        types = {key: getattr(quantization.QuantType, options.get(key, usual)) for key, usual in TYPES.items()}
        quantization.quantize_static(
            source,
            output,
            Samples(entry),
            quant_format=getattr(quantization.QuantFormat, options.get("format", "QDQ")),
            per_channel=options.get("per_channel", True),
            op_types_to_quantize=options.get("operators"),
            extra_options={"ActivationSymmetric": options.get("symmetric", False)},
            **types,
        )

    return quantize


TYPES = {"activation_type": "QUInt8", "weight_type": "QInt8"}


class Samples:
    """Random inputs to calibrate with, as ONNX Runtime reads them."""

    def __init__(self, entry: Entry) -> None:
        self._samples = iter(samples(entry))

    def get_next(self) -> dict[str, Any] | None:
        return next(self._samples, None)


def samples(entry: Entry) -> Iterator[dict[str, Any]]:
    import numpy as np

    rng = np.random.default_rng(0)
    for _ in range(CALIBRATION_SAMPLES):
        if entry.tokens:
            yield {"x": rng.integers(0, entry.tokens, entry.shape)}
        else:
            yield {"x": rng.standard_normal(entry.shape, np.float32)}


def dynamic(source: Path, output: Path, _: Entry) -> None:
    from onnxruntime import quantization

    # ONNX Runtime has no ConvInteger for signed weights.
    quantization.quantize_dynamic(source, output, weight_type=quantization.QuantType.QUInt8)


def by_nncf(source: Path, output: Path, entry: Entry) -> None:
    import nncf
    import onnx

    model = onnx.load(source)
    onnx.save(nncf.quantize(model, nncf.Dataset(list(samples(entry))), subset_size=CALIBRATION_SAMPLES), output)


def of_module(write: Callable[[Any, Any, Iterable[Any], Path], None]) -> Form:
    """A form of a tool that takes PyTorch's modules, in place of their ONNX files."""
    return lambda _, output, entry: write(*made(entry), samples(entry), output)


def by_modelopt(precision: str) -> Form:
    return lambda source, output, entry: zoo_tools.by_modelopt(source, samples(entry), output, precision)


FORMS: dict[str, Form] = {
    "u8s8": static(),
    "s8s8": static(activation_type="QInt8"),
    "u8u8": static(weight_type="QUInt8", per_channel=False),
    "qoperator": static(format="QOperator"),
    "layers": static(operators=LAYERS),
    "dynamic": dynamic,
    "nncf": by_nncf,
    "pt2e": of_module(zoo_tools.by_pt2e),
}
# Made where `--only` names them: one whose zero points are 0, for TensorRT, and those of tools that few have.
MORE_FORMS: dict[str, Form] = {
    "symmetric": static(activation_type="QInt8", symmetric=True),
    "fx": of_module(zoo_tools.by_fx),
    "brevitas": of_module(zoo_tools.by_brevitas),
    "mct": of_module(zoo_tools.by_mct),
    "modelopt": by_modelopt("fp32"),
    "modelopt16": by_modelopt("fp16"),
}


def make(folder: Path, only: str, side: int) -> None:
    """Write what is missing; what can't be made is said, and the rest goes on."""
    folder = folder.resolve()
    forms = {**FORMS, **{form: more for form, more in MORE_FORMS.items() if only.startswith(f"{form}/")}}
    refuse_unknown(only, forms)
    for name, entry in entries(side):
        if missing := _missing(folder, only, forms, f"{name}.onnx"):
            make_onnx(name, entry, missing, forms)
    for name, model in keras_entries(side):
        for form, path in _missing(folder, only, model.forms, f"{name}.tflite").items():
            _tried(f"{name}: {form}", lambda: model.forms[form](model, path))  # noqa: B023


def refuse_unknown(only: str, forms: Iterable[str]) -> None:
    """End where there is no such form or model."""
    files = {f"{form}/{name}" for name, _ in entries() for form in forms}
    files |= {f"{form}/{name}" for name, model in keras_entries() for form in model.forms}
    if not any(only in file for file in files):
        named = sorted({file.partition("/")[0] for file in files} | MORE_FORMS.keys())
        sys.exit(f"no FORM/NAME has the text {only!r}; forms: {', '.join(named)}")


def make_onnx(name: str, entry: Entry, wanted: Mapping[str, Path], forms: Mapping[str, Form]) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    # ONNX Runtime leaves files in the folder where it runs.
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        exported, prepared = Path(scratch) / "float.onnx", Path(scratch) / "prepared.onnx"
        if not _tried(f"{name}: export", lambda: export(entry, exported)):
            return
        if not _tried(f"{name}: shapes", lambda: quant_pre_process(exported, prepared)):
            return
        for form, path in wanted.items():
            _tried(f"{name}: {form}", lambda: forms[form](prepared, path, entry))  # noqa: B023


def _missing(folder: Path, only: str, forms: Iterable[str], file: str) -> dict[str, Path]:
    """The files that are to be made, in folders that are there."""
    wanted = {form: folder / form / file for form in forms if only in f"{form}/{Path(file).stem}"}
    missing = {form: path for form, path in wanted.items() if not path.exists()}
    for path in missing.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    return missing


def _tried(what: str, step: Callable[[], None]) -> bool:
    try:
        step()
    except Exception as error:  # whatever the other libraries raise says something about this model only
        lines = str(error).strip().splitlines() or [type(error).__name__]
        print(f"{what}: not made: {lines[0][:200]}", file=sys.stderr)
        return False
    print(what, file=sys.stderr)
    return True


def main() -> None:
    about = "Behind `--`: options of `int8tune bench`, for `times`."
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], epilog=about)
    parser.add_argument("what", choices=("make", "table", "times", "roundings"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models or forms whose FORM/NAME has this text")
    parser.add_argument("--side", type=int, default=SIDE, help="of pictures that `make` makes models for, in pixels")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="inputs that `roundings` draws for each model")
    parser.add_argument("-o", "--output", type=Path, help="file for the table; printed if left out")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, more = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1 :]
    if options.what == "make":
        make(options.folder, options.only, options.side)
        return
    families = {name: entry.family for name, entry in entries()}
    families |= {name: entry.family for name, entry in keras_entries()}
    if options.what == "table":
        text = table(options.folder, options.only, families)
    elif options.what == "roundings":
        text = roundings(options.folder, options.only, families, options.samples)
    else:
        text = times(options.folder, options.only, families, more)
    print(text) if options.output is None else options.output.write_text(text + "\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; what was finished is kept, and the same command goes on behind it")
