"""Layers as a graph's operators: one, or several where it is a transposed convolution or has one dimension or three."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from int8tune.compiler.graph import Kind, Value
from int8tune.compiler.onnx_reader.floats import Emit
from int8tune.compiler.onnx_reader.frames import frames_before, frames_behind
from int8tune.compiler.onnx_reader.fused import Ending
from int8tune.compiler.onnx_reader.layers import KernelForm
from int8tune.compiler.onnx_reader.links import Link
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.word_sums import SUMS, WordSums
from int8tune.compiler.transposed import Part, Plan, part_attributes, part_kind, part_quantization


def layer_links(
    form: KernelForm,
    data: Value,
    bias: Constant | None,
    made: str,
    values: GraphValues,
    sums: WordSums | None = None,
) -> Iterator[Link]:
    """The operators of a layer, in order; new values are added. `made` is there already.

    Args:
        sums: what becomes of those of a layer of 16-bit data, which has no other bias.
    """
    source, output = data.name, values.by_name[made]
    if form.frames is not None:
        for link in frames_before(form.frames, data, made, values):
            yield link
            source = link.made
    elif form.image and data.shape != form.image:
        source = values.like(data, f"{made}/image", form.image)
        yield Link(Kind.RESHAPE, (data.name,), source)
    end = made
    if form.made and form.made != output.shape:
        end = values.like(output, f"{made}/row", form.made)
    if form.plan is None:
        attributes = form.attributes if sums is None else {**form.attributes, SUMS: sums}
        yield _layer(form.kind, source, (form.weight, form.order), bias, end, attributes, values)
    else:
        yield from _transposed(form, form.plan, source, (bias, sums), end, values)
    if form.frames is not None:
        yield from frames_behind(end, made, values)
    elif end != made:
        yield Link(Kind.RESHAPE, (end,), made)


def emit_links(links: Iterable[Link], node: Node, ending: Ending, clamp: tuple[int, int] | None, emit: Emit) -> None:
    """Emit the operators of a layer whose output is quantized: what ends the layer is a part of it alone."""
    for link in links:
        names = None if link.is_layer else (link.made,)
        activations = ending.activations if link.is_layer else ()
        bounds = clamp if link.is_layer else None
        emit(link.kind, node, activations, link.inputs, (link.made,), link.attributes, names, bounds)


def _layer(
    kind: Kind,
    source: str,
    weight: tuple[Constant, str],
    bias: Constant | None,
    made: str,
    attributes: Mapping[str, Any],
    values: GraphValues,
) -> Link:
    constants = [values.constant(*weight)]
    if bias is not None:
        constants.append(values.constant(bias, f"sums {weight[1]}"))
    return Link(kind, (source, *constants), made, attributes, True)


def _transposed(
    form: KernelForm,
    plan: Plan,
    source: str,
    added: tuple[Constant | None, WordSums | None],
    made: str,
    values: GraphValues,
) -> Iterator[Link]:
    output, (rows, columns), block = values.by_name[made], plan.size, plan.block
    whole = (form.made[0], form.made[1], rows * block[0], columns * block[1])
    is_cut, is_moved = whole != form.made, block != (1, 1)
    placed = values.like(output, f"{made}/whole", whole) if is_cut else made
    channels = (form.made[0], whole[1] * block[0] * block[1], *plan.size)
    joined = values.like(output, f"{made}/phases", channels) if is_moved else placed
    names = [joined]
    if len(plan.parts) > 1:
        names = [
            values.like(output, f"{made}/phase {index}", (channels[0], len(part.weight), *plan.size))
            for index, part in enumerate(plan.parts)
        ]
    for index, (part, name) in enumerate(zip(plan.parts, names, strict=True)):
        yield _part(form, part, source, added, (name, f"part {index} of {made}"), values)
    if len(plan.parts) > 1:
        yield Link(Kind.CONCAT, tuple(names), joined, {"axis": 1})
    if is_moved:
        yield Link(Kind.DEPTH_TO_SPACE, (joined,), placed, {"block": block, "minor": plan.minor})
    if is_cut:
        begin = (0, 0, *plan.begin)
        end = tuple(first + extent for first, extent in zip(begin, form.made, strict=True))
        yield Link(Kind.SLICE, (placed,), made, {"begin": begin, "end": end, "strides": (1,) * 4})


def _part(
    form: KernelForm,
    part: Part,
    source: str,
    added: tuple[Constant | None, WordSums | None],
    made: tuple[str, str],
    values: GraphValues,
) -> Link:
    (name, order), (bias, sums) = made, added
    weight = Constant(form.weight.name, part.weight, part_quantization(part, form.weight.quantization))
    if bias is not None:
        quantization = part_quantization(part, bias.quantization)
        bias = replace(bias, array=bias.array[part.channels], quantization=quantization)
    groups = form.attributes["groups"]
    kind, attributes = part_kind(part, groups, form.image[1]), part_attributes(part, groups)
    if sums is not None:
        attributes = {**attributes, SUMS: sums.of_channels(part.channels)}
    return _layer(kind, source, (weight, order), bias, name, attributes, values)
