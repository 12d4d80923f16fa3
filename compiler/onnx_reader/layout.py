"""Where the axes of a graph's values are: ONNX has images as [N, C, H, W], a graph as [N, H, W, C].

Values that operators compute element by element, or join, have one layout. Such a group is moved unless a matrix
product or a transposition says that its last axis is that of the channels already, and no operator on images is in it.
Numbers that islands of float nodes take and make stay as in the file: bytes are moved before and behind them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from int8tune.compiler.file_layout import FROM_FILE, TO_FILE
from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators.base import WORDS

IMAGES = (
    Kind.CONV2D,
    Kind.DEPTHWISE,
    Kind.AVERAGE_POOL,
    Kind.MAX_POOL,
    Kind.RESIZE,
    Kind.DEPTH_TO_SPACE,
    Kind.SPACE_TO_DEPTH,
)
# Constants of these meet images.
JOINING = (
    Kind.ADD,
    Kind.SUBTRACT,
    Kind.MULTIPLY,
    Kind.MINIMUM,
    Kind.MAXIMUM,
    Kind.PRELU,
    Kind.ELEMENTWISE,
    Kind.CONCAT,
)
# These may drop axes.
REDUCING = (Kind.MEAN, Kind.SUM, Kind.REDUCE_MAX, Kind.REDUCE_MIN, Kind.ARG_MAX, Kind.ARG_MIN)
PRODUCTS = (Kind.DENSE, Kind.MATMUL)
# Values of a softmax from which on it is worth to have them side by side.
LEAST_ROW = 64
# These have operators for values of any layout on both sides.
BETWEEN = (Kind.RESHAPE, Kind.TRANSPOSE, Kind.FLOAT, Kind.OTHER)


def with_images_moved(
    values: dict[str, Value], operators: Sequence[Operator]
) -> tuple[dict[str, Value], tuple[Operator, ...], frozenset[str]]:
    """Values and operators of a graph, and which values are [N, H, W, C] and were [N, C, H, W].

    Constants are as they were, but for those that are added to, multiplied by or joined with images.
    """
    layout = _Layout(values, operators)
    moved = tuple(each for operator in operators for each in layout.moved(operator))
    return layout.values, moved, layout.images


class _Layout:
    """Moves operators of one graph; `values` grows by what is inserted between them."""

    def __init__(self, values: dict[str, Value], operators: Sequence[Operator]) -> None:
        self._file_values = values
        self.images = _images(values, operators)
        self.values = {
            name: replace(value, shape=tuple(value.shape[axis] for axis in FROM_FILE)) if name in self.images else value
            for name, value in values.items()
        }

    def moved(self, operator: Operator) -> Iterator[Operator]:
        """The operator on moved values; several where some of them have to be transposed."""
        match operator.kind:
            case Kind.RESHAPE:
                yield from self._reshaped(operator)
            case Kind.TRANSPOSE:
                yield self._transposed(operator)
            case Kind.OTHER | Kind.CONV2D | Kind.DEPTHWISE:
                yield operator
            case Kind.FLOAT:
                yield from self._in_file_order(operator)
            case Kind.SOFTMAX:
                for each in self._on_axes(operator):
                    yield from self._along_rows(each) if each.kind is Kind.SOFTMAX else (each,)
            case _:
                yield from self._on_axes(operator)

    def _reshaped(self, operator: Operator) -> Iterator[Operator]:
        """A reshape of values in the file's order."""
        (source,), (made,) = operator.inputs, operator.outputs
        if self._file_values[source].shape == self._file_values[made].shape and self._is_one_layout((source, made)):
            yield operator
            return
        if not self._is_in_order(source):
            source = self._insert(source)
            yield self._transposition(operator, operator.inputs[0], source, TO_FILE)
        if self._is_in_order(made):
            yield replace(operator, inputs=(source,))
            return
        middle = self._insert(made)
        yield replace(operator, inputs=(source,), outputs=(middle,))
        yield self._transposition(operator, middle, made, FROM_FILE)

    def _transposed(self, operator: Operator) -> Operator:
        """Its permutation in the graph's axes; one that changes nothing is a reshape."""
        (source,), (made,) = operator.inputs, operator.outputs
        order = operator.attributes["permutation"]
        rank = range(len(order))
        places = TO_FILE if source in self.images else rank
        order = tuple(places[order[axis]] for axis in (FROM_FILE if made in self.images else rank))
        if order == tuple(rank):
            return replace(operator, kind=Kind.RESHAPE, attributes={})
        return replace(operator, attributes={"permutation": order})

    def _on_axes(self, operator: Operator) -> Iterator[Operator]:
        """An operator whose values have one layout, with the axes of its attributes; or in the file's, between others.

        Matrix products are always in the file's.
        """
        data = [name for name in (*operator.inputs[: _taken(operator)], *operator.outputs) if self._is_data(name)]
        if not any(name in self.images for name in data):
            yield operator
            return
        if operator.kind in REDUCING:
            stays = self._keeps_order(operator)
        else:
            is_one = all(name in self.images or self._is_single(name) for name in data)
            stays = is_one and operator.kind not in PRODUCTS
        if stays:
            yield replace(self._with_constants(operator), attributes=_attributes_moved(operator))
        else:
            yield from self._in_file_order(operator)

    def _along_rows(self, softmax: Operator) -> Iterator[Operator]:
        """A softmax whose values lie apart, between transpositions that have them side by side: kernels take rows."""
        (source,), (made,) = softmax.inputs, softmax.outputs
        axis, shape = softmax.attributes["axis"], self.values[source].shape
        if math.prod(shape[axis + 1 :]) == 1 or shape[axis] < LEAST_ROW:
            yield softmax
            return
        order = (*(other for other in range(len(shape)) if other != axis), axis)
        rows, shares = (self._insert(name, order) for name in (source, made))
        back = tuple(order.index(place) for place in range(len(order)))
        yield self._transposition(softmax, source, rows, order)
        yield replace(
            softmax, inputs=(rows,), outputs=(shares,), attributes={**softmax.attributes, "axis": len(order) - 1}
        )
        yield self._transposition(softmax, shares, made, back)

    def _keeps_order(self, mean: Operator) -> bool:
        """Whether the axes that a mean keeps are in one order in the file and in the graph."""
        kept = [axis for axis in FROM_FILE if axis not in mean.attributes["axes"]]
        return mean.outputs[0] in self.images or (self._rank(mean.outputs[0]) < len(FROM_FILE) and kept == sorted(kept))

    def _in_file_order(self, operator: Operator) -> Iterator[Operator]:
        """The operator as the file has it, between transpositions."""
        inputs = []
        for name in operator.inputs:
            inserted = self._insert(name) if name in self.images else name
            if inserted != name:
                yield self._transposition(operator, name, inserted, TO_FILE)
            inputs.append(inserted)
        middle = {name: self._insert(name) if name in self.images else name for name in operator.outputs}
        yield replace(operator, inputs=tuple(inputs), outputs=tuple(middle.values()))
        for made, inserted in middle.items():
            if inserted != made:
                yield self._transposition(operator, inserted, made, FROM_FILE)

    def _with_constants(self, operator: Operator) -> Operator:
        """The operator with its constants as images: axes of extent 1 in front, then moved."""
        names, is_joined = [], operator.kind in JOINING
        for name in operator.inputs:
            constant = self.values[name].constant
            if is_joined and constant is not None and constant.ndim <= len(FROM_FILE):
                wide = constant.reshape((1,) * (len(FROM_FILE) - constant.ndim) + constant.shape)
                array = np.ascontiguousarray(wide.transpose(FROM_FILE))
                value = replace(self.values[name], name=self._unused(name), shape=array.shape, constant=array)
                self.values[value.name] = value
                name = value.name
            names.append(name)
        return replace(operator, inputs=tuple(names))

    def _transposition(self, operator: Operator, source: str, made: str, order: tuple[int, ...]) -> Operator:
        attributes = {"permutation": order}
        inserted = made if made not in self._file_values else source
        names = {"layers": (inserted,), "operator": "", "inputs": (source,), "outputs": (made,)}
        return replace(operator, kind=Kind.TRANSPOSE, clamp=None, attributes=attributes, **names)  # type: ignore[arg-type]

    def _insert(self, name: str, order: tuple[int, ...] = TO_FILE) -> str:
        """A value that is another one with its axes in some order: an image's in the file's, unless one is given."""
        value = self.values[name]
        made = replace(value, name=self._unused(name), shape=tuple(value.shape[axis] for axis in order))
        self.values[made.name] = made
        return made.name

    def _unused(self, name: str) -> str:
        return free_name(f"{name}/moved", self.values)

    def _is_in_order(self, name: str) -> bool:
        """Whether a value's elements are in the file's order: there is one pixel, or one channel."""
        _, channels, *pixels = (*self._file_values[name].shape, 1, 1)
        return name not in self.images or channels == 1 or math.prod(pixels) == 1

    def _is_one_layout(self, names: tuple[str, ...]) -> bool:
        return len({name in self.images for name in names}) <= 1

    def _is_data(self, name: str) -> bool:
        return self._file_values[name].constant is None

    def _is_single(self, name: str) -> bool:
        return math.prod(self._file_values[name].shape) == 1

    def _rank(self, name: str) -> int:
        return len(self._file_values[name].shape)


def _taken(operator: Operator) -> int:
    """How many of its inputs an operator computes with as data."""
    return 1 if operator.kind is Kind.DENSE else len(operator.inputs)


def _attributes_moved(operator: Operator) -> dict[str, object]:
    """Attributes of an operator on images, for its moved values."""
    at = dict(operator.attributes)
    if operator.kind in REDUCING:
        at["axes"] = tuple(sorted(TO_FILE[axis] for axis in at["axes"]))
    if "axis" in at:
        at["axis"] = TO_FILE[at["axis"]]
    if operator.kind in (Kind.PAD, Kind.SLICE, Kind.GATHER):
        for name in ("padding", "begin", "end", "strides", "places"):
            if name in at:
                at[name] = tuple(at[name][axis] for axis in FROM_FILE)
    return at


def _images(values: dict[str, Value], operators: Sequence[Operator]) -> frozenset[str]:
    """The values that are moved."""
    groups = _Groups()
    is_image, is_last = set[str](), set[str]()
    numbers, rows = _numbers(values, operators), _rows(values, operators)
    for operator in operators:
        names = [
            name
            for name in (*operator.inputs, *operator.outputs)
            if len(values[name].shape) == len(FROM_FILE) and values[name].constant is None and name not in numbers
        ]
        # No operator on images reads values of 16 bits.
        is_last.update(name for name in names if values[name].type in WORDS)
        if operator.kind in IMAGES:
            is_image.update(names)
        elif operator.kind in PRODUCTS:
            is_last.update(names)
        elif operator.kind is Kind.TRANSPOSE:
            # From or to [N, H, W, C] in the file itself.
            order = operator.attributes["permutation"]
            is_last.update({TO_FILE: operator.inputs, FROM_FILE: operator.outputs}.get(order, ()))
        elif operator.kind is Kind.RESHAPE and _keeps_rows(operator, values, rows):
            is_last.update(names)
        if operator.kind not in (*BETWEEN, *PRODUCTS):
            groups.join(names)
    images, last = ({groups.of(name) for name in names} for names in (is_image, is_last))
    return frozenset(
        name
        for name, value in values.items()
        if len(value.shape) == len(FROM_FILE)
        and value.constant is None
        and name not in numbers
        and (groups.of(name) in images or groups.of(name) not in last)
    )


def _rows(values: dict[str, Value], operators: Sequence[Operator]) -> set[str]:
    """What matrix products take and make, element by element: the last axis is that of the channels."""
    groups, ends = _Groups(), set[str]()
    for operator in operators:
        names = (*operator.inputs, *operator.outputs)
        if operator.kind in PRODUCTS:
            ends.update(names)
        elif operator.kind not in BETWEEN and len({values[name].shape for name in names}) == 1:
            groups.join(names)
    products = {groups.of(name) for name in ends}
    return {name for name in values if groups.of(name) in products}


def _keeps_rows(reshape: Operator, values: dict[str, Value], rows: set[str]) -> bool:
    """Whether a reshape leaves the rows of a matrix product whole."""
    names = (*reshape.inputs, *reshape.outputs)
    shapes = [values[name].shape for name in names]
    return any(name in rows for name in names) and all(shapes) and len({shape[-1] for shape in shapes}) == 1


def _numbers(values: dict[str, Value], operators: Sequence[Operator]) -> set[str]:
    """What float nodes take and make."""
    islands = [operator for operator in operators if operator.kind is Kind.FLOAT]
    ends = {name for operator in islands for name in (*operator.inputs, *operator.outputs)}
    return {name for name in ends if values[name].quantization is None}


class _Groups:
    """Names that belong together, each group by one of them."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def of(self, name: str) -> str:
        while (parent := self._parents.get(name, name)) != name:
            # Paths are halved on the way, so that long chains stay short.
            self._parents[name] = self._parents.get(parent, parent)
            name = parent
        return name

    def join(self, names: Sequence[str]) -> None:
        for name in names[1:]:
            self._parents[self.of(name)] = self.of(names[0])
