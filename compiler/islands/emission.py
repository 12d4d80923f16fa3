"""Islands as calls of kernels, made by TVM's importer of ONNX and its fusion. This module imports TVM."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.islands.finite import drop_finite_checks
from int8tune.compiler.islands.folding import fold_by_numpy
from int8tune.compiler.islands.half import widen_half
from int8tune.compiler.islands.island import Array, onnx_model
from int8tune.compiler.islands.joining import join_parts
from int8tune.compiler.islands.legalization import LEGALIZATIONS
from int8tune.compiler.islands.rows import CORES
from int8tune.compiler.islands.scheduling import scheduled
from int8tune.compiler.operator_kernels.kernel import ELEMENTS
from int8tune.compiler.reasons import reason_of
from int8tune.results.text import clipped, printable
from int8tune.schedules.target import Target

# What stays an operator of Relax: values in another shape, which are not copied.
VIEWS = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")


@dataclass(frozen=True, slots=True, eq=False)
class FloatCall:
    """One call of a kernel of an island.

    Attributes:
        function: a PrimFunc; None where the output is the argument in another shape.
        arguments: names of values, and constants.
        outputs: the values that it makes.
    """

    name: str
    function: Any
    arguments: tuple[str | Array, ...]
    outputs: tuple[Value, ...]


def float_calls(graph: Graph, operator: Operator, target: Target) -> list[FloatCall]:
    """The calls that compute an island, in order.

    Raises:
        ModelError: TVM's importer can't convert it.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Reader(graph, operator, _kernels(graph, operator, target), target).calls()
    except Exception as error:  # the importer raises whatever its operators do
        where = f"`{clipped(operator.layers[0])}` ({clipped(operator.operator)})"
        reason = reason_of(error)
        raise ModelError(printable(f"{graph.name}: {where} can't be compiled in float: {reason}")) from None


def _kernels(graph: Graph, operator: Operator, target: Target) -> Any:
    """A Relax module whose `main` calls PrimFuncs, one for each chain of nodes that TVM fuses."""
    from tvm.relax.frontend.onnx import from_onnx  # needs the extra `models`

    module = from_onnx(onnx_model(operator, graph.values), keep_params_in_input=False, sanitize_input_names=False)
    passes = [
        relax.transform.DecomposeOpsForInference(),
        widen_half,
        fold_by_numpy,
        drop_finite_checks,
        join_parts,
        relax.transform.CanonicalizeBindings(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(LEGALIZATIONS, skip_ops=list(VIEWS)),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(["main"]),
    ]
    with tvm.target.Target({**target.tvm, CORES: target.threads}):
        return tvm.transform.Sequential(passes)(module)


class _Reader:
    """Reads the calls of a Relax function."""

    def __init__(self, graph: Graph, operator: Operator, module: Any, target: Target) -> None:
        self._operator, self._module, self._target = operator, module, target
        self._graph = graph
        main = module["main"]
        self._known: dict[Any, Any] = dict(zip(main.params, operator.inputs, strict=True))
        self._made: list[FloatCall] = []
        self._values = 0

    def calls(self) -> list[FloatCall]:
        body = self._module["main"].body
        for block in body.blocks:
            for binding in block.bindings:
                self._known[binding.var] = self._read(binding.value)
        results = self._read(body.body)
        results = results if isinstance(results, tuple) else (results,)
        for result, name in zip(results, self._operator.outputs, strict=True):
            found, value = self._form(result), self._graph.values[name]
            if found != (value.shape, value.type):
                raise ValueError(f"its output has the form {found} and not {(value.shape, value.type)}")
            self._add("copy", None, (result,), (self._graph.values[name],))
        return self._made

    def _read(self, expression: Any) -> Any:
        """What stands for an expression: a value's name, a constant, or a tuple of these."""
        match expression:
            case relax.Var():
                return self._known[expression]
            case relax.Tuple():
                return tuple(self._read(field) for field in expression.fields)
            case relax.TupleGetItem():
                return self._read(expression.tuple_value)[expression.index]
            case relax.Call() if expression.op.name == "relax.call_tir":
                return self._call(expression)
            case relax.Call() if expression.op.name in VIEWS:
                source = self._read(expression.args[0])
                shape = tuple(int(extent) for extent in expression.ty.shape)
                if isinstance(source, np.ndarray):
                    return source.reshape(shape)
                value = self._value(expression.ty)
                self._add("reshape", None, (source,), (value,))
                return value.name
        if hasattr(expression, "value"):
            return expression.value.numpy()
        raise ValueError(f"it has no kernel: {expression}")

    def _call(self, call: Any) -> Any:
        function = self._module[call.args[0]]
        arguments = tuple(self._read(each) for each in call.args[1])
        types = call.ty_args[0]
        is_tuple = isinstance(types, relax.TupleType)
        values = tuple(self._value(each) for each in (types.fields if is_tuple else [types]))
        self._add(call.args[0].name_hint, scheduled(function, self._target), arguments, values)
        return tuple(value.name for value in values) if is_tuple else values[0].name

    def _form(self, result: str | Array) -> tuple[tuple[int, ...], str]:
        if isinstance(result, str):
            made = {value.name: value for call in self._made for value in call.outputs}
            value = made.get(result) or self._graph.values[result]
            return value.shape, value.type
        return result.shape, ELEMENTS[str(result.dtype)]

    def _value(self, type_: Any) -> Value:
        shape = tuple(int(extent) for extent in type_.shape)
        self._values += 1
        return Value(f"{self._operator.outputs[0]}/float {self._values}", shape, ELEMENTS[str(type_.dtype)])

    def _add(self, name: str, function: Any, arguments: tuple[str | Array, ...], outputs: tuple[Value, ...]) -> None:
        self._made.append(FloatCall(name, function, arguments, outputs))
