"""A copy of an image in which the channels of each group fill whole words: what narrow groups are read from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.image import Image
from int8tune.schedules.written.image import ReadImage, copied_image
from int8tune.schedules.written.rows import VECTOR_BYTES, load_bytes, repeat, share, store_vector
from int8tune.schedules.written.signature import Arguments
from int8tune.schedules.x86.grouped_form import GroupWords
from int8tune.schedules.x86.registers import TAPS

# Bytes that are packed at a time: a byte shuffle (PSHUFB) does not cross 128 bits.
BLOCK_BYTES = 16


@dataclass(frozen=True, slots=True)
class Block:
    """Where the bytes of four words come from.

    Attributes:
        start: the first byte read, counted from the period's first group.
        taps: for each tap of a word, which of the 16 bytes read there each byte of the block takes, or 16 for a zero.
    """

    start: int
    taps: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Period:
    """Blocks that fill the words of `groups` whole groups: all periods of a row are packed alike."""

    groups: int
    blocks: tuple[Block, ...]


def packed_image(problem: Image, words: GroupWords, arguments: Arguments, slack: int, threads: int) -> ReadImage:
    """A copy with the border filled and `slack` bytes behind each row; signed data becomes unsigned.

    A pixel has the words of all groups; zeros fill what channels and taps leave of a word. Groups are packed one after
    the other, whatever pixel they are of.
    """
    period = period_of(words)
    tap_bytes = problem.window.dilation[1] * problem.channels
    read_beyond = (words.taps - 1) * tap_bytes + period.groups * words.channels + BLOCK_BYTES
    source = copied_image(problem, arguments, read_beyond, threads, flip=problem.numerics.data == "s8")
    periods = math.ceil(source.columns * problem.groups / period.groups)
    used = source.columns * problem.groups * words.count * TAPS
    row_bytes = -(-(used + max(slack, len(period.blocks) * BLOCK_BYTES)) // VECTOR_BYTES) * VECTOR_BYTES
    rows = problem.batch * source.rows
    buffer = T.alloc_buffer((rows * row_bytes,), "uint8")

    def pack(row: Any, index: Any) -> None:
        """One period of a row."""
        at = row * source.row_bytes + index * (period.groups * words.channels)
        for number, block in enumerate(period.blocks):
            target = row * row_bytes + (index * len(period.blocks) + number) * BLOCK_BYTES
            store_vector(buffer, target, _packed(block, source.buffer, at, tap_bytes), BLOCK_BYTES)

    share(rows, threads, lambda row: repeat(periods, lambda index: pack(row, index)))
    return ReadImage(buffer, source.rows, source.columns, row_bytes, 0, 0)


def period_of(words: GroupWords) -> Period:
    """The shortest period of a group's words."""
    words_of_a_block = BLOCK_BYTES // TAPS
    common = math.gcd(words.count, words_of_a_block)
    return Period(words_of_a_block // common, tuple(_block(words, index) for index in range(words.count // common)))


def _block(words: GroupWords, index: int) -> Block:
    """Block `index` of a period."""
    sources: list[tuple[int, int] | None] = []
    for at in range(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES):
        group, byte = divmod(at, words.count * TAPS)
        tap, channel = divmod(byte, words.channels)
        sources.append((tap, group * words.channels + channel) if tap < words.taps else None)
    start = min(source[1] for source in sources if source)
    taps = tuple(
        tuple(source[1] - start if source and source[0] == tap else BLOCK_BYTES for source in sources)
        for tap in range(words.taps)
    )
    return Block(start, taps)


def _packed(block: Block, source: Any, at: Any, tap_bytes: int) -> Any:
    """The bytes of a block whose period begins at index `at`."""
    zeros = T.broadcast(T.uint8(0), BLOCK_BYTES)
    parts = [
        T.Shuffle([load_bytes(source, at + block.start + tap * tap_bytes, BLOCK_BYTES), zeros], list(order))
        for tap, order in enumerate(block.taps)
    ]
    packed = parts[0]
    for part in parts[1:]:
        packed = T.bitwise_or(packed, part)
    return packed
