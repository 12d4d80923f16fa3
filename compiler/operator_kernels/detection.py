"""Detections of an SSD, written as loops: how many turns they have depends on values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, rounded_alone
from int8tune.compiler.operators.detection import CORNERS, DetectionOptions, options_of
from int8tune.schedules.target import Target

Score = Callable[[Any], Any]


def detection(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:  # noqa: ARG001
    """Boxes are decoded; the best one is taken and those that overlap it are dropped, again and again."""
    options = options_of(operator)
    shapes = [graph.values[name].shape for name in (*operator.inputs, *operator.outputs)]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _DetectionWriter(options, shapes).write()
    scales = np.array(options.scales, np.float32).astype(np.float64)
    return OperatorKernel(builder.get(), operator.inputs, (scales,))


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Boxes that may still be taken, in the order of their places.

    Attributes:
        count, best, kept: numbers, [1] each: how many there are, the best of them, and those that stay behind it.
    """

    box: Any
    score: Any
    count: Any
    best: Any
    kept: Any


class _DetectionWriter:
    """Emits the kernel `main`."""

    def __init__(self, options: DetectionOptions, shapes: list[tuple[int, ...]]) -> None:
        self._options = options
        boxes, scores, anchors, *outputs = shapes
        self._boxes, self._channels = boxes[1], scores[2]
        self._rows = options.detections
        T.func_name("main")
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        self._encoded, self._scores, self._anchors = (
            T.arg(name, T.buffer(shape, "float32"))
            for name, shape in (("boxes", boxes), ("scores", scores), ("anchors", anchors))
        )
        # As an argument: TVM makes a division by a constant a product.
        self._scales = T.arg("scales", T.buffer((CORNERS,), "float64"))
        self._found = [T.arg(f"out{index}", T.buffer(shape, "float32")) for index, shape in enumerate(outputs)]

    def write(self) -> None:
        count = self._boxes
        self._corners = T.alloc_buffer((count, CORNERS), "float32")
        self._area = T.alloc_buffer((count,), "float32")
        self._place = T.alloc_buffer((self._rows,), "int32")
        self._number, self._chosen, self._row = (T.alloc_buffer((1,), "int32") for _ in range(3))
        indices, numbers = T.alloc_buffer((count,), "int32"), T.alloc_buffer((count,), "float32")
        self._candidates = _Candidates(indices, numbers, *(T.alloc_buffer((1,), "int32") for _ in range(3)))
        self._clear()
        with T.serial(0, count) as box:
            self._decode(box)
        _set(self._number, 0)
        if self._options.is_regular:
            self._regular()
        else:
            self._fast()
        with T.serial(0, self._number[0]) as row, T.serial(0, CORNERS) as side:
            T.buffer_store(self._found[0], self._corners[self._place[row], side], [0, row, side])
        T.buffer_store(self._found[3], self._number[0].astype("float32"), [0])

    def _clear(self) -> None:
        zero = _number(0.0)
        with T.serial(0, self._rows) as row:
            with T.serial(0, CORNERS) as side:
                T.buffer_store(self._found[0], zero, [0, row, side])
            for made in self._found[1:3]:
                T.buffer_store(made, zero, [0, row])

    def _decode(self, box: Any) -> None:
        """The corners of a box, and its area."""
        double = [self._encoded[0, box, side].astype("float64") / self._scales[side] for side in range(CORNERS)]
        anchor = [self._anchors[box, side].astype("float64") for side in range(CORNERS)]
        for side in range(2):
            center = (_double_alone(double[side] * anchor[2 + side]) + anchor[side]).astype("float32")
            exponential = tirx.exp(double[2 + side])
            half = (tirx.const(0.5, "float64") * exponential * anchor[2 + side]).astype("float32")
            for place, corner in ((side, center - half), (2 + side, center + half)):
                T.buffer_store(self._corners, corner, [box, place])
        height, width = (self._corners[box, 2 + side] - self._corners[box, side] for side in range(2))
        T.buffer_store(self._area, rounded_alone(height * width), [box])

    def _fast(self) -> None:
        """Each box by its best class."""
        first = self._channels - self._options.classes
        category, score = T.alloc_buffer((self._boxes,), "int32"), T.alloc_buffer((self._boxes,), "float32")
        with T.serial(0, self._boxes) as box:
            T.buffer_store(category, T.int32(0), [box])
            T.buffer_store(score, self._scores[0, box, first], [box])
            with T.serial(1, self._options.classes) as each:
                own = self._scores[0, box, first + each]
                with T.If(own > score[box]), T.Then():
                    T.buffer_store(category, T.int32(each), [box])
                    T.buffer_store(score, own, [box])

        def take(box: Any, best: Any) -> None:
            row = self._number[0]
            T.buffer_store(self._place, box, [row])
            T.buffer_store(self._found[1], category[box].astype("float32"), [0, row])
            T.buffer_store(self._found[2], best, [0, row])
            _set(self._number, row + 1)

        self._choose(lambda box: score[box], self._rows, take)

    def _regular(self) -> None:
        """Each class by itself; the best detections of all of them."""
        first = self._channels - self._options.classes
        with T.serial(0, self._options.classes) as category:

            def take(box: Any, score: Any) -> None:
                self._insert(box, T.int32(category), score)

            self._choose(lambda box: self._scores[0, box, first + category], self._options.detections_per_class, take)

    def _insert(self, box: Any, category: Any, score: Any) -> None:
        """Put a detection behind those that are as good; the last one is dropped where there is no place."""
        row, (_, classes, scores, _) = self._row, self._found
        _set(row, tirx.min(self._number[0], self._rows - 1))
        is_free = tirx.any(self._number[0] < self._rows, scores[0, self._rows - 1] < score)
        with T.If(is_free), T.Then():
            with T.While(tirx.all(row[0] > 0, scores[0, tirx.max(row[0] - 1, 0)] < score)):
                for made in (classes, scores):
                    T.buffer_store(made, made[0, row[0] - 1], [0, row[0]])
                T.buffer_store(self._place, self._place[row[0] - 1], [row[0]])
                _set(row, row[0] - 1)
            T.buffer_store(classes, category.astype("float32"), [0, row[0]])
            T.buffer_store(scores, score, [0, row[0]])
            T.buffer_store(self._place, box, [row[0]])
            _set(self._number, tirx.min(self._number[0] + 1, self._rows))

    def _choose(self, score: Score, most: int, take: Callable[[Any, Any], None]) -> None:
        """Take the best boxes, without those that overlap a better one."""
        them, chosen = self._candidates, self._chosen
        _set(them.count, 0)
        with T.serial(0, self._boxes) as box:
            own = score(box)
            with T.If(own >= _number(self._options.score_threshold)), T.Then():
                T.buffer_store(them.box, T.int32(box), [them.count[0]])
                T.buffer_store(them.score, own, [them.count[0]])
                _set(them.count, them.count[0] + 1)
        _set(chosen, 0)
        with T.While(tirx.all(chosen[0] < most, them.count[0] > 0)):
            _set(them.best, 0)
            with T.serial(1, them.count[0]) as place:
                is_better = them.score[place] > them.score[them.best[0]]
                with T.If(is_better), T.Then():
                    _set(them.best, place)
            best = T.alloc_buffer((1,), "int32")
            _set(best, them.box[them.best[0]])
            take(best[0], them.score[them.best[0]])
            self._drop(best[0])
            _set(chosen, chosen[0] + 1)

    def _drop(self, box: Any) -> None:
        """Leave only candidates behind that don't overlap the best one."""
        them = self._candidates
        _set(them.kept, 0)
        with T.serial(0, them.count[0]) as place:
            overlap = self._overlap(box, them.box[place])
            is_apart = tirx.Not(overlap > _number(self._options.overlap_threshold))
            with T.If(tirx.all(place != them.best[0], is_apart)), T.Then():
                T.buffer_store(them.box, them.box[place], [them.kept[0]])
                T.buffer_store(them.score, them.score[place], [them.kept[0]])
                _set(them.kept, them.kept[0] + 1)
        _set(them.count, them.kept[0])

    def _overlap(self, one: Any, other: Any) -> Any:
        corners, areas = self._corners, [self._area[each] for each in (one, other)]
        sides = []
        for side in range(2):
            low = tirx.max(corners[one, side], corners[other, side])
            high = tirx.min(corners[one, 2 + side], corners[other, 2 + side])
            sides.append(tirx.max(high - low, _number(0.0)))
        common = rounded_alone(sides[0] * sides[1])
        share = common / (areas[0] + areas[1] - common)
        return tirx.Select(tirx.all(*(area > _number(0.0) for area in areas)), share, _number(0.0))


def _set(cell: Any, value: Any) -> None:
    T.buffer_store(cell, value, [0])


def _number(value: float) -> Any:
    return tirx.const(value, "float32")


def _double_alone(value: Any) -> Any:
    """A float64 that is rounded before anything is added to it."""
    return tirx.call_llvm_pure_intrin("float64", "llvm.arithmetic.fence", value)
