"""What a weight zero point takes from each sum: the zero point times the sum of the data in the window.

All output channels of a group share one window sum. Pixels are summed once, then windows of pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT
from int8tune.schedules.image import Image
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.written.image import ReadImage
from int8tune.schedules.written.rows import VECTOR_BYTES, load_bytes, pieces, repeat, share


def corrections(problem: Image, image: ReadImage, params: Any, vectors: X86Vectors, threads: int) -> Any:
    """The weight zero point times each window sum, int32 [N * OH * OW * groups]; a border in memory counts."""
    window, (height, width), groups = problem.window, problem.output, problem.groups
    pixels = _pixel_sums(problem, image, vectors, threads)
    result = T.alloc_buffer((problem.batch * height * width * groups,), "int32")
    rows, columns = _padded_size(problem)

    def one(n: Any, y: Any, x: Any, g: Any) -> None:
        total: Any = T.int32(0)
        for kh in range(window.kernel[0]):
            row = n * rows + y * window.stride[0] + kh * window.dilation[0]
            for kw in range(window.kernel[1]):
                column = x * window.stride[1] + kw * window.dilation[1]
                total = total + pixels[(row * columns + column) * groups + g]
        T.buffer_store(result, params[WEIGHT_ZERO_POINT] * total, [((n * height + y) * width + x) * groups + g])

    _nest((problem.batch * height, width, groups), threads, one, height)
    return result


def _pixel_sums(problem: Image, image: ReadImage, vectors: X86Vectors, threads: int) -> Any:
    """The sum of each pixel's channels, [N, rows, columns, groups] with all padding, zero where it is not in memory."""
    channels, groups = problem.group_channels, problem.groups
    rows, columns = _padded_size(problem)
    count = problem.batch * rows * columns * groups
    sums = T.alloc_buffer((count,), "int32")
    if (image.rows, image.columns) != (rows, columns):
        repeat(count, lambda index: T.buffer_store(sums, T.int32(0), [index]))

    def byte_sum(at: Any, width: int) -> Any:
        value = load_bytes(image.buffer, at, width)
        return vectors.sum_of(T.cast(value, f"int32x{width}")) if width > 1 else T.cast(value, "int32")

    def one(n: Any, y: Any, x: Any, g: Any) -> None:
        at = (n * image.rows + y) * image.row_bytes + x * problem.channels + g * channels
        whole = channels // VECTOR_BYTES
        place = ((n * rows + y + image.top) * columns + x + image.left) * groups + g
        rest = (byte_sum(at + whole * VECTOR_BYTES + o, width) for o, width in pieces(channels % VECTOR_BYTES, 64))
        T.buffer_store(sums, sum(rest, T.int32(0)), [place])

        def add(index: Any) -> None:
            T.buffer_store(sums, sums[place] + byte_sum(at + index * VECTOR_BYTES, VECTOR_BYTES), [place])

        repeat(whole, add)

    _nest((problem.batch * image.rows, image.columns, groups), threads, one, image.rows)
    return sums


def _padded_size(problem: Image) -> tuple[int, int]:
    top, left, bottom, right = problem.window.padding
    return problem.height + top + bottom, problem.width + left + right


def _nest(extents: Sequence[int], threads: int, body: Callable[..., None], height: int) -> None:
    """Loops over rows of all images, shared among the threads, their columns and groups: body(n, y, x, g)."""

    def row(index: Any) -> None:
        place = (index // height, index % height)
        repeat(extents[1], lambda x: repeat(extents[2], lambda g: body(*place, x, g)))

    share(extents[0], threads, row)
