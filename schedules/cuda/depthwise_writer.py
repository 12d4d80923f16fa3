"""What kernels of depthwise convolutions on a GPU have in common: a tile in each thread, weights in registers."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.depthwise_form import CHANNELS, WORD_ROWS, DepthwiseForm
from int8tune.schedules.cuda.launch import grid, threads_of
from int8tune.schedules.cuda.loaded_factors import with_loaded_params
from int8tune.schedules.gpus import Gpu
from int8tune.schedules.intrinsics.cuda import Instructions
from int8tune.schedules.workload import DepthwiseConv2d
from int8tune.schedules.written.rows import divided
from int8tune.schedules.written.signature import declare_arguments


class DepthwiseWriter:
    """Emits one kernel; what a thread does with its tile says `_tile`."""

    def __init__(self, workload: DepthwiseConv2d, form: DepthwiseForm, gpu: Gpu) -> None:
        self.workload = workload
        self.form = form
        self.gpu = gpu
        self.instructions = Instructions(gpu)
        self.types = (workload.numerics.data, workload.numerics.weight)

    def write(self) -> None:
        form = self.form
        declared = declare_arguments(self.workload, form, form.weight_length)
        with grid(*form.grid(self.gpu.multiprocessors)) as (block,), threads_of(form.threads) as thread:
            self.arguments = with_loaded_params(declared)
            tile = T.Bind(block * form.threads + thread)
            with T.If(tile < form.tiles), T.Then():
                self._find(tile)
                self._tile()

    def _find(self, tile: Any) -> None:
        """The thread's channels, its image, and its first row and column of outputs."""
        form, (height, width) = self.form, self.form.output
        rest, self.quad = divided(tile, form.quads)
        rest, column = divided(rest, form.column_tiles)
        self.image, row = divided(rest, form.row_tiles)
        self.position = T.Bind(self.quad * CHANNELS)
        self.y = T.Bind(T.min(row * form.walked_rows, max(height - form.walked_rows, 0)))
        self.x = T.Bind(T.min(column * form.tile_columns, width - form.tile_columns))

    def _tile(self) -> None:
        raise NotImplementedError

    def _load_weights(self) -> None:
        form = self.form
        self.weight = T.alloc_buffer((form.weight_words * CHANNELS,), "int32", scope="local")
        words = as_words(self.arguments.weight, form.weight_length)
        with T.unroll(0, form.weight_words) as index:
            loaded = words.vload([(self.quad * form.weight_words + index) * CHANNELS], f"int32x{CHANNELS}")
            T.buffer_store(self.weight, loaded, [T.ramp(index * CHANNELS, 1, CHANNELS)])


def as_words(buffer: Any, length: int) -> Any:
    """The same memory as words; its whole ones."""
    return T.decl_buffer((length // WORD_ROWS,), "int32", data=buffer.data)
