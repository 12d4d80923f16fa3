"""A model's program: which kernels are called one after the other, with which constants. This module needs no TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.quantized_layers import ModelLayer, quantized_layers

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a kernel.

    Attributes:
        layers: names in the original model of what it computes.
        computes: a workload's key, or what the file calls the operator.
        schedule: the template, its version and config, and where they come from; empty where nothing was chosen.
        kernel: name of the function in `Program.kernels`; empty where the output is the argument in another shape.
        arguments: names of values, and constants, in the function's order.
        outputs: names of the values that it makes.
        is_float: it is part of an island, and is not defined bit for bit.
    """

    layers: tuple[str, ...]
    computes: str
    schedule: Mapping[str, Any]
    kernel: str
    arguments: tuple[str | Array, ...]
    outputs: tuple[str, ...]
    is_float: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What is built of a graph.

    Attributes:
        graph: has the values between the calls, too.
        kernels: TVM PrimFuncs by name; their arguments are a call's, and the outputs.
    """

    graph: Graph
    calls: tuple[Call, ...]
    kernels: Mapping[str, Any]


Step = ModelLayer | Operator


def main_of(index: int) -> str:
    """What a library calls its program for the shapes of this number."""
    return f"main_{index}" if index else "main"


def watched_of(index: int) -> str:
    """The same, call by call, so that each can be timed."""
    return f"watched_{index}"


def known_of(index: int) -> str:
    """What gives the constants of a program that is one function, its arguments behind the inputs."""
    return f"known_{index}"


def steps_of(graph: Graph) -> tuple[Step, ...]:
    """What is to be run, in order: layers with their additions fused, and all other operators.

    A layer with an addition runs where the addition stood: only there the other summand is known.

    Raises:
        ModelError: a layer is none that a workload can say.
    """
    layers = quantized_layers(graph)
    fused = {id(layer.operator) for layer in layers}
    last: dict[int, Step] = {id(layer.addition or layer.operator): layer for layer in layers}
    return tuple(
        last.get(id(operator), operator)
        for operator in graph.operators
        if id(operator) in last or id(operator) not in fused
    )
