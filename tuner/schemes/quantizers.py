"""Quantizers: this library's, and others that are compared with it."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from int8tune.compiler.report import Report
from int8tune.quantize.errors import QuantizeError
from int8tune.quantize.float_model import FloatModel, one_line, shown
from int8tune.quantize.options import Options
from int8tune.quantize.quantizer import Quantized, quantize
from int8tune.quantize.samples.base import Batch, Samples
from int8tune.tuner.bench.peers.registry import missing_distributions
from int8tune.tuner.errors import NoQuantizerError, UnknownQuantizerError
from int8tune.tuner.models.runtimes import OpenVino, Runtime
from int8tune.tuner.schemes.scheme import Scheme

_SHOWN = 60
_PERCENTILE = 99.999


@dataclass(frozen=True, slots=True)
class Made:
    """A quantized model.

    Attributes:
        quantized: what this library says of it; None of other quantizers' models.
    """

    path: Path
    quantized: Quantized | None = None


class Quantizer(Protocol):
    """Makes quantized models.

    Attributes:
        name: as the command line has it.
        requires: names of the distributions that it needs.
        suffix: of the files that it writes.
        runtime: who runs these; None: this library compiles them.
    """

    @property
    def name(self) -> str: ...

    @property
    def requires(self) -> tuple[str, ...]: ...

    @property
    def suffix(self) -> str: ...

    @property
    def runtime(self) -> Runtime | None: ...

    def variants(self, schemes: Sequence[Scheme]) -> Sequence[tuple[str, Scheme]]:
        """What it makes where these schemes are asked for, by names."""

    def make(
        self,
        model: FloatModel,
        samples: Samples,
        variant: tuple[str, Scheme],
        options: Options,
        path: Path,
        report: Report,
    ) -> Made:
        """Write a quantized model.

        Raises:
            QuantizeError: it can't.
        """


class Int8Tune:
    """This library's."""

    name = "int8tune"
    requires = ()
    suffix = ".onnx"
    runtime = None

    def variants(self, schemes: Sequence[Scheme]) -> Sequence[tuple[str, Scheme]]:
        return [(str(scheme), scheme) for scheme in schemes]

    def make(
        self,
        model: FloatModel,
        samples: Samples,
        variant: tuple[str, Scheme],
        options: Options,
        path: Path,
        report: Report,
    ) -> Made:
        made = quantize(model, samples, variant[1].options(options), report=report)
        path.write_bytes(made.proto.SerializeToString(deterministic=True))
        return Made(path, made)


class OnnxRuntime:
    """ONNX Runtime's `quantize_static`, by the calibrations of it that work for 8 bits."""

    name = "onnxruntime"
    requires = ("onnx", "onnxruntime")
    suffix = ".onnx"
    runtime = None
    methods = ("MinMax", "Percentile")

    def variants(self, schemes: Sequence[Scheme]) -> Sequence[tuple[str, Scheme]]:
        forms = dict.fromkeys((scheme.per_tensor, scheme.is_signed) for scheme in schemes)
        found = [(method, Scheme(None, *form)) for method in self.methods for form in forms]
        return [(", ".join(filter(None, [f"{self.name} {method}", each.form])), each) for method, each in found]

    def make(
        self,
        model: FloatModel,
        samples: Samples,
        variant: tuple[str, Scheme],
        options: Options,
        path: Path,
        report: Report,
    ) -> Made:
        from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType
        from onnxruntime.quantization.quantize import quantize_static

        name, scheme = variant
        method = next(method for method in self.methods if name.startswith(f"{self.name} {method}"))
        report(f"{name}: calibrating", 0, 1)
        with _quiet(), _as_quantize_error(model, self.name):
            quantize_static(
                model.path,
                path,
                _Reader(_alike(model, samples)),
                quant_format=QuantFormat.QDQ,
                per_channel=not scheme.per_tensor,
                activation_type=QuantType.QInt8 if scheme.is_signed else QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=CalibrationMethod[method],
                nodes_to_exclude=list(options.skip),
                extra_options={"CalibPercentile": _PERCENTILE} if method == "Percentile" else {},
            )
        return Made(path)


def _alike(model: FloatModel, samples: Samples) -> Iterator[Batch]:
    """Batches of the same size: percentiles are taken of arrays that are stacked."""
    for batch in samples.batches(model.inputs):
        if any(each.batch is not None for each in model.inputs):
            yield batch
            continue
        for number in range(len(batch[model.inputs[0].name])):
            yield {name: array[number : number + 1] for name, array in batch.items()}


class _Reader:
    """A `CalibrationDataReader` of batches."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches

    def get_next(self) -> Mapping[str, Any] | None:
        return next(self._batches, None)


class Nncf:
    """NNCF's, of ONNX models."""

    name = "nncf"
    requires: tuple[str, ...] = ("nncf", "onnx")
    suffix = ".onnx"
    runtime: Runtime | None = None

    def variants(self, schemes: Sequence[Scheme]) -> Sequence[tuple[str, Scheme]]:  # noqa: ARG002
        return [(self.name, Scheme(None))]

    def make(
        self,
        model: FloatModel,
        samples: Samples,
        variant: tuple[str, Scheme],
        options: Options,
        path: Path,
        report: Report,
    ) -> Made:
        with _quiet(), _as_quantize_error(model, self.name):
            import nncf

            report(f"{variant[0]}: calibrating", 0, 1)
            batches = list(samples.batches(model.inputs))
            ignored = nncf.IgnoredScope(names=list(options.skip)) if options.skip else None
            made = nncf.quantize(
                self._read(model), nncf.Dataset(batches, dict), subset_size=len(batches), ignored_scope=ignored
            )
            self._write(made, path)
        return Made(path)

    def _read(self, model: FloatModel) -> Any:
        import onnx

        return onnx.load(model.path)

    def _write(self, made: Any, path: Path) -> None:
        import onnx

        onnx.save(made, path)


class OpenVinoNncf(Nncf):
    """OpenVINO's, which is NNCF on its own form of models, run by OpenVINO itself."""

    name = "openvino"
    requires = ("nncf", "openvino")
    suffix = ".xml"
    runtime = OpenVino()

    def _read(self, model: FloatModel) -> Any:
        import openvino

        return openvino.Core().read_model(str(model.path))

    def _write(self, made: Any, path: Path) -> None:
        import openvino

        openvino.save_model(made, str(path))


OWN: Quantizer = Int8Tune()
OTHERS: tuple[Quantizer, ...] = (OnnxRuntime(), OpenVinoNncf(), Nncf())


def quantizers_named(names: Sequence[str]) -> tuple[Quantizer, ...]:
    """Quantizers to compare with.

    Raises:
        UnknownQuantizerError: there is no quantizer of a name.
        NoQuantizerError: one is not installed.
    """
    known = {each.name: each for each in OTHERS}
    for name in names:
        if name not in known:
            raise UnknownQuantizerError(f"unknown quantizer `{name[:_SHOWN]}`, known: {', '.join(known)}")
        if missing := missing_distributions(known[name].requires):
            raise NoQuantizerError(f"`{name}` is not installed: pip install {' '.join(missing)}")
    return tuple(known[name] for name in dict.fromkeys(names))


@contextlib.contextmanager
def _as_quantize_error(model: FloatModel, name: str) -> Iterator[None]:
    try:
        yield
    except QuantizeError:
        raise
    except Exception as error:  # whatever another library raises for a model that it does not know
        raise QuantizeError(f"{shown(model.path)}: {name} can't quantize it: {one_line(error)}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Others' quantizers print, and write advice to the log of whoever calls them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    nowhere = _nowhere()
    try:
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            yield
    finally:
        logging.disable(before)


@functools.cache
def _nowhere() -> TextIO:
    """A stream like those of a program, as others ask for its encoding; never closed, as their handlers keep it."""
    return Path(os.devnull).open("w", encoding="utf-8")
