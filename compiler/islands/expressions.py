"""What passes over Relax ask of its expressions, and how they write new ones. This module imports TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te
from tvm.ir import GenericConst


def rewritten(module: Any, mutator: Callable[[Any], Any]) -> Any:
    """The module with its functions as a mutator makes them."""
    changed = mutator(module)
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            changed.builder_.update_func(variable, changed.visit_expr(function))
    return changed.builder_.get()


def name_of(expression: Any) -> str:
    """What an operator is called; of a kernel that is written already, such as the bounds of a Clip are, its name."""
    if is_written(expression):
        return str(expression.args[0].name_hint).rstrip("0123456789")
    return str(getattr(getattr(expression, "op", None), "name", ""))


def is_written(expression: Any) -> bool:
    """Whether it is a call of a kernel."""
    return str(getattr(getattr(expression, "op", None), "name", "")) == "relax.call_tir"


def number_of(value: Any) -> float | None:
    """A constant of no axes as a number; None of anything else."""
    is_number = isinstance(value, GenericConst) and value.ty.ndim == 0
    return float(value.value.numpy()) if is_number else None


def of_each(builder: Any, function: Callable[[Any], Any], data: Any, name: str) -> Any:
    """A function of each value, as a kernel with this name."""
    return builder.call_te(
        lambda values: te.compute(values.shape, lambda *at: function(values[at]), name=name),
        data,
        primfunc_name_hint=name,
    )
