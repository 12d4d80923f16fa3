"""The blocks of a grid and the threads of a block, as loops that are run side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.gpus import WORD_BYTES


def shared_words(shared: Any, dtype: str = "int32") -> Any:
    """A block's shared memory, which is bytes, as words."""
    return T.decl_buffer((int(shared.shape[0]) // WORD_BYTES,), dtype, data=shared.data, scope="shared.dyn")


@contextlib.contextmanager
def grid(*sizes: int) -> Iterator[tuple[Any, ...]]:
    """Emit a grid of blocks, of up to three axes: their indices, the first one's neighbours start together."""
    with contextlib.ExitStack() as stack:
        yield tuple(
            stack.enter_context(T.thread_binding(0, size, thread=f"blockIdx.{axis}")) if size > 1 or axis == "x" else 0
            for axis, size in zip("xyz", sizes, strict=False)
        )


@contextlib.contextmanager
def threads_of(count: int) -> Iterator[Any]:
    """Emit the threads of a block: their index."""
    with T.thread_binding(0, count, thread="threadIdx.x") as thread:
        yield thread
