"""conv2d and dense on Hopper, with roles: four warps copy, others multiply and store, and blocks have tiles in turn.

Who copies is as many steps ahead as there are stages, also those of the next tile, while the others store the last one.
The biases and rescale values of a tile's channels lie in shared memory when the tile is stored: who multiplies loads
them there before.

Each stage has two barriers: at `filled` everybody arrives who copied to it, and the bytes of the weights; at `emptied`
each warp that has multiplied it. The phase of a stage is how often it was filled before. NVIDIA's CUTLASS calls this
warp specialization, and its kernels cooperative or pingpong.
"""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.copies import BulkWeightCopies, ImageCopies
from int8tune.schedules.cuda.gemm_form import COPYING_REGISTERS
from int8tune.schedules.cuda.gemm_kernel import GemmWriter
from int8tune.schedules.cuda.launch import grid, threads_of
from int8tune.schedules.cuda.loaded_factors import loaded_factors, with_loaded_params
from int8tune.schedules.cuda.products import products_of
from int8tune.schedules.gpus import GROUP, WARP, WORD_BYTES
from int8tune.schedules.written.rows import divided

# Of the hardware's barriers, of which __syncthreads takes 0.
FIRST_TURN = 1


class RolesWriter(GemmWriter):
    """Emits a kernel whose blocks have tiles in turn."""

    def write(self) -> None:
        form = self.form
        self.declare()
        (self.block_count,) = form.grid(self.gpu.multiprocessors)
        with grid(self.block_count) as (block,), threads_of(form.threads) as thread:
            self.shared = T.alloc_buffer((form.shared_bytes,), "int8", scope="shared.dyn")
            self._begin_stages(thread)
            # Every block has a tile at least; the first ones may have one more.
            self.tile_count = T.Bind(T.truncdiv(T.int32(form.tiles - 1) - block, self.block_count) + 1)
            self.block = block
            first_copying = form.teams * form.tile_threads
            with T.If(thread >= first_copying):
                with T.Then():
                    if form.gives_registers:
                        self.instructions.give_registers(COPYING_REGISTERS)
                    self._copy(T.Bind(thread - first_copying))
                with T.Else():
                    if form.gives_registers:
                        self.instructions.take_registers(form.most_registers)
                    self._multiply(thread)

    def _filled(self, stage: Any) -> Any:
        return self._barrier(2 * stage)

    def _emptied(self, stage: Any) -> Any:
        return self._barrier(2 * stage + 1)

    def _begin_stages(self, thread: Any) -> None:
        form = self.form
        with T.If(thread == 0), T.Then():
            for stage in range(form.stages):
                # Who copies the weights arrives a second time, with their size.
                self.instructions.begin_barrier(self._filled(stage), GROUP + 1)
                self.instructions.begin_barrier(self._emptied(stage), form.tile_threads // WARP)
            self.instructions.show_barriers()
        T.evaluate(T.tvm_storage_sync("shared"))

    def _tile(self, turn: Any) -> tuple[Any, Any, Any]:
        """Which tile of rows and of channels the block has with this number, and the group of the channels."""
        form = self.form
        tile = T.Bind(self.block + turn * self.block_count)
        if form.outer == "weights":
            channel_tile, row_tile = divided(tile, form.row_tiles)
        else:
            row_tile, channel_tile = divided(tile, self.problem.groups * form.channel_tiles)
        return row_tile, channel_tile, self.group_of(channel_tile)

    def _stage(self, turn: Any, step: Any) -> tuple[Any, Any]:
        """The stage of a step of the block's tile with this number, and the parity of the stage's phase."""
        filled, stage = divided(T.Bind(turn * self.form.steps + step), self.form.stages)
        return stage, T.Bind(T.bitwise_and(filled, 1))

    def _copy(self, thread: Any) -> None:
        """Fill stages as they become empty, tile by tile."""
        form, instructions = self.form, self.instructions
        image = ImageCopies(form, instructions, self.arguments.data, self.shared, thread)
        weights = BulkWeightCopies(form, instructions, self.arguments.weight, self.shared, thread, self._filled)
        with T.serial(0, self.tile_count) as turn:
            row_tile, channel_tile, group = self._tile(turn)
            image.begin(row_tile * form.block_rows, group)
            with T.serial(0, form.steps) as step:
                stage, parity = self._stage(turn, step)
                # Of a stage that was never filled the phase before the first one has ended.
                instructions.wait_for_phase(self._emptied(stage), T.bitwise_xor(parity, 1))
                weights.copy(channel_tile, step, stage)
                image.copy(step, stage)
                instructions.arrive_with_copies(self._filled(stage))

    def _multiply(self, thread: Any) -> None:
        """Multiply and store a team's tiles; teams multiply in turn, as stages are filled."""
        form, instructions = self.form, self.instructions
        team, of_tile = divided(thread, form.tile_threads) if form.teams > 1 else (T.int32(0), thread)
        self.products = products_of(form, instructions, self.shared, of_tile)
        self.products.begin()
        given = with_loaded_params(self.arguments)
        first = T.Bind(form.factors_at // WORD_BYTES + team * form.factor_words)
        self.arguments = loaded = loaded_factors(given, form, self.shared, first)
        first_lane = T.Bind(T.truncmod(thread, WARP) == 0)
        with T.serial(0, T.truncdiv(self.tile_count - team + form.teams - 1, form.teams)) as own:
            turn = T.Bind(own * form.teams + team)
            row_tile, channel_tile, group = self._tile(turn)
            stores = loaded.fetch(given, T.Bind(channel_tile * form.block_channels), of_tile, form.tile_threads)
            if form.teams > 1:
                with T.If(turn > 0), T.Then():
                    instructions.await_turn(FIRST_TURN + team, form.teams * form.tile_threads)
            with T.serial(0, form.steps) as step:
                stage, parity = self._stage(turn, step)
                instructions.wait_for_phase(self._filled(stage), parity)
                instructions.publish()
                self.products.add(step, T.Bind(stage * form.stage_bytes))
                self.products.wait(1)
                with T.If(T.And(first_lane, step > 0)), T.Then():
                    instructions.arrive(self._emptied(self._stage(turn, step - 1)[0]))
            self.products.wait(0)
            with T.If(first_lane), T.Then():
                instructions.arrive(self._emptied(self._stage(turn, T.int32(form.steps - 1))[0]))
            if form.teams > 1:
                with T.If(turn + 1 < self.tile_count), T.Then():
                    instructions.pass_turn(FIRST_TURN + 1 - team, form.teams * form.tile_threads)
            # Nobody stores the last tile any more; behind the next one of these, everybody's factors are there.
            instructions.await_turn(FIRST_TURN + 2 + team, form.tile_threads)
            for store in stores:
                store()
            instructions.await_turn(FIRST_TURN + 2 + team, form.tile_threads)
            self.finish(row_tile * form.block_rows, channel_tile, group, 0)
