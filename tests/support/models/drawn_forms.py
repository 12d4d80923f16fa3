"""Shapes and attributes of operators, drawn for each kind; many have a fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from int8tune.compiler.graph import Kind
from int8tune.compiler.operators.elementwise import BINARY, TABLE, UNARY, Operation
from int8tune.compiler.operators.word_sums import SUMS, Rounding, WordSums

Shape = tuple[int, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]

# Extents without and with whole vectors; the last ones make values that are worth a second thread.
EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 32, 33])
BATCHES = st.sampled_from([1, 1, 3])
NONE = np.zeros(0, np.float32)
SEEDS = st.integers(0, 2**16)


@dataclass(frozen=True, slots=True)
class Form:
    """What a kind's strategy draws: the shapes, and attributes in the graph's terms."""

    inputs: tuple[Shape, ...]
    output: Shape
    attributes: Mapping[str, Any]


def shapes(least: int = 1, most: int = 4) -> st.SearchStrategy[Shape]:
    """A batch and up to three other axes."""
    return st.builds(
        lambda batch, rest: (batch, *rest), BATCHES, st.lists(EXTENTS, min_size=least - 1, max_size=most - 1)
    )


def any_rank() -> st.SearchStrategy[Shape]:
    """Up to five axes, which have few values each where they are five."""
    few = st.lists(st.sampled_from([1, 2, 3, 5, 16]), min_size=4, max_size=4)
    return st.one_of(shapes(), shapes(), st.builds(lambda batch, rest: (batch, *rest), BATCHES, few))


@st.composite
def same_shape(draw: Draw, inputs: int = 1) -> Form:
    shape = draw(any_rank())
    return Form((shape,) * inputs, shape, {})


@st.composite
def products(draw: Draw) -> Form:
    """Two shapes of which either is spread over axes of extent 1, or has fewer axes."""
    whole = draw(any_rank())
    cut = [tuple(1 if draw(st.integers(0, 3)) == 0 else extent for extent in whole) for _ in range(2)]
    short = draw(st.integers(0, len(whole))) if draw(st.booleans()) else 0
    pair = [cut[0], cut[1][short:]] if draw(st.booleans()) else [cut[0][short:], cut[1]]
    return Form((pair[0], pair[1]), np.broadcast_shapes(*pair), {})


@st.composite
def expressions(draw: Draw) -> Form:
    """Up to four inputs, and operations of which each takes any that is there."""
    whole = draw(any_rank())
    count = draw(st.integers(1, 4))
    inputs = [tuple(1 if draw(st.integers(0, 4)) == 0 else extent for extent in whole) for _ in range(count)]
    inputs = [each[draw(st.sampled_from([0, 0, len(whole)])) :] for each in inputs]
    operations = [draw(_operations(count, count + index)) for index in range(draw(st.integers(1, 5)))]
    return Form(tuple(inputs), np.broadcast_shapes(*inputs), {"operations": tuple(operations)})


@st.composite
def _operations(draw: Draw, inputs: int, known: int) -> Operation:
    function, operand = draw(st.sampled_from([TABLE, *BINARY, *UNARY])), st.integers(0, known - 1)
    numbers = np.random.default_rng(draw(SEEDS)).normal(size=256).astype(np.float32)
    if function == TABLE:
        return Operation(TABLE, (draw(st.integers(0, inputs - 1)),), numbers)
    if function in BINARY:
        # The last one is taken, so that each has a part in the output.
        return Operation(
            function, draw(st.sampled_from([(draw(operand), known - 1), (known - 1, draw(operand))])), NONE
        )
    return Operation(function, (known - 1,), numbers[: UNARY[function][0]])


@st.composite
def images(draw: Draw) -> Shape:
    return draw(BATCHES), draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)


@st.composite
def pools(draw: Draw) -> Form:
    image = draw(images())
    sides = [draw(_window(extent)) for extent in image[1:3]]
    kernel, stride, before, behind = (tuple(side[part] for side in sides) for part in range(4))
    rows, columns = (
        (extent + sum(side[2:]) - side[0]) // side[1] + 1 for extent, side in zip(image[1:3], sides, strict=True)
    )
    attributes = {"kernel": kernel, "stride": stride, "padding": (*before, *behind)}
    attributes["include_pad"] = draw(st.booleans())
    return Form((image,), (image[0], rows, columns, image[3]), attributes)


@st.composite
def _window(draw: Draw, extent: int) -> tuple[int, int, int, int]:
    """Extent, stride, and border before and behind."""
    kernel = draw(st.one_of(st.integers(1, min(extent, 9)), st.just(extent)))
    border = st.integers(0, kernel - 1)
    return kernel, draw(st.integers(1, 3)), draw(border), draw(border)


@st.composite
def means(draw: Draw) -> Form:
    shape = draw(any_rank())
    axes = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    dropped = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    return Form((shape,), kept if draw(st.booleans()) else dropped, {"axes": axes})


@st.composite
def arguments(draw: Draw) -> Form:
    """One axis."""
    shape = draw(any_rank())
    axis = draw(st.integers(0, len(shape) - 1))
    kept, dropped = (*shape[:axis], 1, *shape[axis + 1 :]), shape[:axis] + shape[axis + 1 :]
    return Form((shape,), draw(st.sampled_from([kept, dropped])), {"axes": (axis,), "last": draw(st.booleans())})


@st.composite
def concatenations(draw: Draw) -> Form:
    shape = draw(shapes())
    axis = draw(st.integers(0, len(shape) - 1))
    extents = draw(st.lists(EXTENTS, min_size=1, max_size=4))
    parts = [(*shape[:axis], extent, *shape[axis + 1 :]) for extent in extents]
    return Form(tuple(parts), (*shape[:axis], sum(extents), *shape[axis + 1 :]), {"axis": axis})


@st.composite
def reshapes(draw: Draw) -> Form:
    shape = draw(shapes())
    split = draw(st.integers(0, len(shape)))
    made = (math.prod(shape[:split]), math.prod(shape[split:]))
    return Form((shape,), made if draw(st.booleans()) else shape[::-1], {})


@st.composite
def transpositions(draw: Draw) -> Form:
    shape = draw(any_rank())
    order = tuple(draw(st.permutations(range(len(shape)))))
    return Form((shape,), tuple(shape[axis] for axis in order), {"permutation": order})


@st.composite
def pads(draw: Draw) -> Form:
    shape = draw(shapes())
    padding = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in shape)
    made = tuple(extent + sum(pair) for extent, pair in zip(shape, padding, strict=True))
    return Form((shape,), made, {"padding": padding, "value": draw(st.integers(-128, 255))})


@st.composite
def slices(draw: Draw) -> Form:
    shape = draw(shapes())
    places = []
    for extent in shape:
        begin = draw(st.integers(0, extent - 1))
        places.append((begin, draw(st.integers(begin + 1, extent)), draw(st.integers(1, 3))))
    begin, end, strides = (tuple(place[part] for place in places) for part in range(3))
    made = tuple(len(range(*place)) for place in places)
    return Form((shape,), made, {"begin": begin, "end": end, "strides": strides})


@st.composite
def gathers(draw: Draw) -> Form:
    shape = draw(shapes(most=5))
    places = [draw(_places(extent)) for extent in shape]
    made = tuple(extent if each is None else len(each) for each, extent in zip(places, shape, strict=True))
    return Form((shape,), made, {"places": tuple(places)})


@st.composite
def _places(draw: Draw, extent: int) -> np.ndarray[Any, Any] | None:
    """All, any, one again and again, or in the other order."""
    rng, count = np.random.default_rng(draw(SEEDS)), draw(EXTENTS)
    chosen: np.ndarray[Any, Any] | None = draw(
        st.sampled_from(
            [
                None,
                rng.integers(0, extent, count),
                np.full(count, extent - 1),
                np.arange(extent)[::-1],
                np.arange(extent)[:: draw(st.integers(1, 3))],
            ]
        )
    )
    return chosen


@st.composite
def blocks(draw: Draw) -> Form:
    """Pixels that become channels."""
    (batch, height, width, channels), block = draw(images()), (draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    image = (batch, min(height, 8) * block[0], min(width, 8) * block[1], channels)
    made = (batch, min(height, 8), min(width, 8), channels * block[0] * block[1])
    return Form((image,), made, {"block": block, "minor": draw(st.booleans())})


@st.composite
def depths(draw: Draw) -> Form:
    """Channels that become pixels."""
    form: Form = draw(blocks())
    return Form((form.output,), form.inputs[0], form.attributes)


@st.composite
def resizes(draw: Draw) -> Form:
    image = draw(images())
    made = (image[0], draw(EXTENTS), draw(EXTENTS), image[3])
    method = draw(st.sampled_from(["bilinear", "bilinear", "nearest"]))
    aligned, centres = draw(st.sampled_from([(False, False), (False, True), (True, False), (True, True)]))
    return Form((image,), made, {"method": method, "align_corners": aligned, "half_pixel_centers": centres})


@st.composite
def softmaxes(draw: Draw) -> Form:
    shape = draw(shapes())
    axis = draw(st.one_of(st.just(len(shape) - 1), st.integers(0, len(shape) - 1)))
    return Form((shape,), shape, {"axis": axis, "beta": draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0]))})


@st.composite
def matrix_products(draw: Draw) -> Form:
    """Pairs of matrices, of which either side's are spread over the other's; the second ones in any order of axes."""
    rows, features, columns = (draw(st.one_of(EXTENTS, st.sampled_from([64, 70, 130]))) for _ in range(3))
    batch = tuple(draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2)))
    cut = [tuple(1 if draw(st.integers(0, 3)) == 0 else extent for extent in batch) for _ in range(2)]
    if draw(st.booleans()):
        cut[draw(st.integers(0, 1))] = ()
    first, second = (*cut[0], rows, features), (*cut[1], features, columns)
    order = tuple(draw(st.permutations(range(len(second)))))
    stored = tuple(second[order.index(axis)] for axis in range(len(second)))
    output = (*np.broadcast_shapes(*cut), rows, columns)
    return Form((first, stored), output, {"order": order})


@st.composite
def word_arithmetic(draw: Draw) -> Form:
    attributes = {"operation": draw(st.sampled_from(["add", "subtract", "multiply"])), "powers": draw(st.booleans())}
    form: Form = draw(products())
    return replace(form, attributes=attributes)


@st.composite
def word_bytes(draw: Draw) -> Form:
    shape = draw(any_rank())
    return Form((shape,), shape, {"is_high": draw(st.booleans())})


@st.composite
def word_sums(draw: Draw) -> Form:
    """Any sums of 32 bits; factors by which those of 64 have exact products, and steps of 32 bits."""
    shape, rounding = draw(any_rank()), draw(st.sampled_from(Rounding))
    wraps = rounding is Rounding.FIXED or (rounding is Rounding.AWAY and draw(st.booleans()))
    rng, channels = np.random.default_rng(draw(SEEDS)), shape[-1] if draw(st.booleans()) else 1
    factor = rng.uniform(0.5, 1, channels) * 2.0 ** rng.integers(-45, 3, channels)
    shift = np.zeros(channels, np.int64)
    if rounding is Rounding.SHIFT:
        factor, shift = rng.integers(0, 1 << 12, channels).astype(np.float64), rng.integers(21, 47, channels)
    if rounding is Rounding.FIXED:
        factor, shift = rng.integers(0, 1 << 31, channels).astype(np.float64), rng.integers(-31, 31, channels)
    bias = rng.integers(-(1 << 31), 1 << 31, channels)
    offset = rng.choice([0, 0.5, 1.3e6, -7.7], channels) * rng.choice([0, 1])
    spread = [np.broadcast_to(each, shape[-1:]) for each in (bias, factor, shift, offset)]
    return Form((shape,) * draw(st.integers(1, 2)), shape, {SUMS: WordSums(rounding, wraps, *spread)})


FORMS: dict[Kind, Callable[[], st.SearchStrategy[Form]]] = {
    Kind.ADD: products,
    Kind.ARG_MAX: arguments,
    Kind.ARG_MIN: arguments,
    Kind.AVERAGE_POOL: pools,
    Kind.CONCAT: concatenations,
    Kind.DEPTH_TO_SPACE: depths,
    Kind.DEQUANTIZE: same_shape,
    Kind.DIVIDE: products,
    Kind.ELEMENTWISE: expressions,
    Kind.GATHER: gathers,
    Kind.LOOKUP: same_shape,
    Kind.MATMUL: matrix_products,
    Kind.MAXIMUM: products,
    Kind.MAX_POOL: pools,
    Kind.MEAN: means,
    Kind.MINIMUM: products,
    Kind.MULTIPLY: products,
    Kind.PAD: pads,
    Kind.PRELU: products,
    Kind.QUANTIZE: same_shape,
    Kind.REDUCE_MAX: means,
    Kind.REDUCE_MIN: means,
    Kind.REQUANTIZE: same_shape,
    Kind.RESHAPE: reshapes,
    Kind.RESIZE: resizes,
    Kind.SLICE: slices,
    Kind.SOFTMAX: softmaxes,
    Kind.SQUARED_DIFFERENCE: products,
    Kind.SPACE_TO_DEPTH: blocks,
    Kind.SUBTRACT: products,
    Kind.SUM: means,
    Kind.TRANSPOSE: transpositions,
    Kind.WORD_ARITHMETIC: word_arithmetic,
    Kind.WORD_BYTE: word_bytes,
    Kind.WORD_SUMS: word_sums,
}
"""What draws the shapes and attributes of each kind that has a kernel; a new kind needs a line here."""
