"""Other libraries' quantizers work without a word, on streams like those of a program."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.options import Options
from int8tune.quantize.samples.given import samples_of
from int8tune.tuner.schemes.quantizers import OnnxRuntime
from int8tune.tuner.schemes.scheme import Scheme
from tests.support.models.float_models import pictures, saved, small


class Talking:
    """Samples that do with the standard streams what libraries do while they quantize, and keep a handler."""

    sha256 = "0" * 64
    kept: ClassVar[list[logging.StreamHandler[Any]]] = []

    def batches(self, inputs: Any) -> Iterator[Any]:
        print("calibrating", file=sys.stdout)
        print(f"{sys.stdout.encoding} {sys.stderr.encoding} {sys.stderr.isatty()}", file=sys.stderr)
        self.kept.append(logging.StreamHandler())
        yield from samples_of(pictures(4)).batches(inputs)


def test_what_others_print_is_dropped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = saved(small(), tmp_path)
    variant = OnnxRuntime().variants([Scheme("max")])[0]
    made = OnnxRuntime().make(
        read_float_model(path), Talking(), variant, Options(), tmp_path / "made.onnx", lambda *_: None
    )
    assert made.path.stat().st_size > 0
    (handler,) = Talking.kept
    handler.emit(logging.LogRecord("others", logging.ERROR, "", 0, "later", None, None))
    assert capfd.readouterr() == ("", "")
