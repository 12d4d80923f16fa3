"""Where the axes of a graph's values are: ONNX has images as [N, C, H, W], a graph as [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.graph import Kind, Operator, Value
from compiler.operators import other


def with_images_moved(
    values: dict[str, Value], operators: list[Operator]
) -> tuple[dict[str, Value], tuple[Operator, ...]]:
    """Values [N, C, H, W] as [N, H, W, C], but for those of matrix products; layers that mix both become others."""
    images = _touched(operators, (Kind.CONV2D, Kind.DEPTHWISE))
    matrices = _touched(operators, (Kind.DENSE,)) - images
    moved = {}
    for name, value in values.items():
        shape = value.shape
        if len(shape) == 4 and value.constant is None and name not in matrices:
            shape = (shape[0], *shape[2:], shape[1])
        moved[name] = replace(value, shape=shape)
    return moved, tuple(_unmixed(operator, values, images, matrices) for operator in operators)


def _touched(operators: Iterable[Operator], kinds: tuple[Kind, ...]) -> set[str]:
    """What operators of some kinds take as data, or make."""
    return {name for each in operators if each.kind in kinds for name in (each.inputs[0], *each.outputs)}


def _unmixed(operator: Operator, values: dict[str, Value], images: set[str], matrices: set[str]) -> Operator:
    names = {
        Kind.DENSE: (operator.inputs[0], *operator.outputs),
        Kind.ADD: (*operator.inputs, *operator.outputs),
    }.get(operator.kind, ())
    names = tuple(name for name in names if len(values[name].shape) == 4)
    in_images = [name in images for name in names]
    in_matrices = [name in matrices for name in names]
    mixed = any(in_images) if operator.kind is Kind.DENSE else any(in_matrices) and not all(in_matrices)
    return other(operator, "it mixes images and matrices") if mixed else operator
