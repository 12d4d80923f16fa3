"""What numpy makes of an island's constants is what TVM makes of them, and TVM has none left to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax
from tvm.ir import GenericConst

from int8tune.compiler.islands.folding import FOLDS, fold_by_numpy

Array = npt.NDArray[Any]
NUMBERS = np.array([[[0.5, -0.0, np.nan], [np.inf, 3e38, -7.25]]], np.float32)
PLACES = np.arange(6, dtype=np.int32).reshape(1, 2, 3)

CALLS: dict[str, Callable[[], Any]] = {
    "reshape": lambda: relax.op.reshape(constant(NUMBERS), (3, 2)),
    "flatten": lambda: relax.op.flatten(constant(NUMBERS)),
    "expand_dims": lambda: relax.op.expand_dims(constant(PLACES), [0, 2]),
    "squeeze": lambda: relax.op.squeeze(constant(NUMBERS), [0]),
    "broadcast_to": lambda: relax.op.broadcast_to(constant(PLACES), (4, 2, 3)),
    "permute_dims": lambda: relax.op.permute_dims(constant(NUMBERS), [2, 0, 1]),
    "permute_dims by default": lambda: relax.op.permute_dims(constant(NUMBERS)),
    "astype": lambda: relax.op.astype(constant(NUMBERS), "float64"),
    "isnan": lambda: relax.op.isnan(constant(NUMBERS)),
    "where": lambda: relax.op.where(constant(PLACES % 2 == 0), constant(NUMBERS), constant(-NUMBERS)),
    "where of binary64": lambda: relax.op.where(
        constant(np.array(True)), constant(np.array(0.1)), constant(np.array(2.0))
    ),
}
# TVM's own compilation, where numpy does not say what becomes of a number.
LEFT: dict[str, Callable[[], Any]] = {
    "astype to fewer bits": lambda: relax.op.astype(constant(NUMBERS), "float16"),
    "astype to integers": lambda: relax.op.astype(constant(NUMBERS[:, :1, :2]), "int32"),
    "another operator": lambda: relax.op.exp(constant(NUMBERS)),
}


def constant(array: Array) -> Any:
    return relax.const(array, str(array.dtype))


def module_of(call: Any) -> Any:
    """A function that returns what a call makes, and what a second one makes of that."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            made = builder.emit(call)
            again = builder.emit_output(relax.op.expand_dims(made, [0]))
        builder.emit_func_output(again)
    return builder.get()


def result_of(module: Any) -> Any:
    """What the function returns: a constant, if it is one."""
    body = module["main"].body
    bindings = {binding.var: binding.value for block in body.blocks for binding in block.bindings}
    found = body.body
    while found in bindings:
        found = bindings[found]
    return found


@pytest.mark.parametrize("name", CALLS)
def test_constants_are_what_tvm_makes_of_them(name: str) -> None:
    module = module_of(CALLS[name]())
    ours = result_of(fold_by_numpy(module))
    assert isinstance(ours, GenericConst)
    theirs = result_of(
        tvm.transform.Sequential([relax.transform.LegalizeOps(), relax.transform.FoldConstant()])(module)
    )
    expected = theirs.value.numpy()
    made = ours.value.numpy()
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    assert made.tobytes() == expected.tobytes()


def test_every_operator_is_compared() -> None:
    assert {f"relax.{name.partition(' ')[0]}" for name in CALLS} == set(FOLDS)


@pytest.mark.parametrize("name", LEFT)
def test_what_numpy_computes_differently_is_left(name: str) -> None:
    assert not isinstance(result_of(fold_by_numpy(module_of(LEFT[name]()))), GenericConst)


def test_a_value_of_the_model_is_left() -> None:
    builder = relax.BlockBuilder()
    given = relax.Var("given", relax.TensorType((1, 2, 3), "float32"))
    with builder.function("main", [given]):
        with builder.dataflow():
            made = builder.emit_output(relax.op.where(constant(PLACES > 2), given, constant(NUMBERS)))
        builder.emit_func_output(made)
    assert not isinstance(result_of(fold_by_numpy(builder.get())), GenericConst)
