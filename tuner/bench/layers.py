"""Which layers a bench compares, and the classes that its summary puts them into."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Protocol

from int8tune.compiler.batches import with_batch
from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.schedules.workload import Dense, DepthwiseConv2d, Workload, parse_workload
from int8tune.tuner.errors import BenchSpecError
from int8tune.tuner.given_network import given_network, require_model

NETWORKS = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "inception_v3", "bert_base")

_KEY = re.compile(r"(?:conv2d|dwconv2d|dense)-")
# With less, a tap of the window is less than one step of the dot-product instruction deep: another kind of kernel.
_FEWEST_CHANNELS = 16
_SMALL_PIXELS = 64
_SHOWN = 60


class Class(Protocol):
    """What layers are summed up in: its value is what tables show."""

    @property
    def value(self) -> str: ...

    @property
    def short(self) -> str:
        """As it is typed."""


class LayerClass(StrEnum):
    """Layers that the same thing limits, as tables name them."""

    SPATIAL = "conv 3x3, 5x5, 1xN"
    POINTWISE_SMALL = "conv 1x1, 7x7 and 8x8"
    POINTWISE = "conv 1x1, larger"
    FIRST = "first conv"
    DEPTHWISE = "depthwise, stride 1"
    DEPTHWISE_STRIDED = "depthwise, stride 2"
    DENSE_ROW = "dense, 1 row"
    DENSE = "dense, many rows"

    @property
    def short(self) -> str:
        """As it is typed."""
        return self.name.lower().replace("_", "-")


def class_of(workload: Workload) -> LayerClass:
    if isinstance(workload, Dense):
        return LayerClass.DENSE_ROW if workload.rows == 1 else LayerClass.DENSE
    if isinstance(workload, DepthwiseConv2d):
        return LayerClass.DEPTHWISE if workload.window.stride == (1, 1) else LayerClass.DEPTHWISE_STRIDED
    if workload.in_channels < _FEWEST_CHANNELS:
        return LayerClass.FIRST
    if workload.window.kernel != (1, 1):
        return LayerClass.SPATIAL
    _, height, width, _ = workload.output_shape
    return LayerClass.POINTWISE_SMALL if height * width <= _SMALL_PIXELS else LayerClass.POINTWISE


def class_named(short: str, classes: Iterable[Class] = LayerClass) -> Class:
    """The class that is typed so.

    Raises:
        BenchSpecError: there is none.
    """
    for layer_class in classes:
        if layer_class.short == short:
            return layer_class
    known = ", ".join(layer_class.short for layer_class in classes)
    raise BenchSpecError(f"unknown class `{short[:_SHOWN]}`, known: {known}")


def choose_layers(
    names: Sequence[str],
    only: Class | None = None,
    batch: int = 1,
    class_of: Callable[[Workload], Class] = class_of,
    given: Given = NOTHING_GIVEN,
) -> tuple[Workload, ...]:
    """The layers of networks, models, layer tables and workload keys, each distinct one once, in order of first use.

    Args:
        only: of one class, as `class_of` says.
        batch: how many inputs a layer is given at once, for each that it has in its table.
        given: what the user says of the inputs of models.

    Raises:
        UnknownNetworkError: no network has this name.
        LayerTableError: a table can't be read, or has faults.
        WorkloadError: a text that looks like a key is none.
        BatchError: as `compiler.batches.with_batch`.
        BenchSpecError: no layer is of the class.
        SpecError: values or shapes of inputs are given for what is no model.
    """
    found: dict[str, Workload] = {}
    for name in names or NETWORKS:
        require_model(name, [given])
        layers = (
            [parse_workload(name)]
            if _KEY.match(name)
            else [row.workload for row in given_network(name, [given]).layers]
        )
        for workload in (with_batch(layer, batch) for layer in layers):
            found.setdefault(workload.key, workload)
    chosen = tuple(workload for workload in found.values() if only in (None, class_of(workload)))
    if not chosen:
        raise BenchSpecError(f"none of the layers is of this class: {only}")
    return chosen
