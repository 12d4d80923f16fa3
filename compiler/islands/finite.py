"""Casts of numbers that are known to be finite. This module imports TVM.

TVM's importer makes zero of what is not finite before it becomes an integer. Between two bounds all numbers are finite:
its greater and lesser of a NaN and a number are the number.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import relax
from tvm.ir.transform import module_pass
from tvm.relax.expr_functor import PyExprMutator, mutator

from int8tune.compiler.islands.expressions import is_written, name_of, number_of, rewritten


@module_pass(opt_level=0, name="DropFiniteChecks")  # type: ignore[untyped-decorator]
def drop_finite_checks(module: Any, _context: Any) -> Any:
    """Take numbers between bounds as they are, without asking of each whether it is finite."""
    return rewritten(module, _Dropping)


@mutator
class _Dropping(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        made = super().visit_call_(call)
        if name_of(made) != "relax.where":
            return made
        condition, _, number = made.args
        refused = self._first_argument("relax.logical_not", condition)
        checked = self._first_argument("relax.isfinite", refused)
        return number if number.same_as(checked) and self._is_between_bounds(number) else made

    def _is_between_bounds(self, value: Any) -> bool:
        return self._first_argument("maximum", self._first_argument("minimum", value)) is not None

    def _first_argument(self, operator: str, value: Any) -> Any | None:
        """That of the operator that makes a value, if all others are finite numbers; None of another operator."""
        found = self._found(value)
        if name_of(found) != operator:
            return None
        first, *others = found.args[1] if is_written(found) else found.args
        return first if all(_is_finite(self._found(each)) for each in others) else None

    def _found(self, value: Any) -> Any:
        return self.lookup_binding(value) if isinstance(value, relax.Var) else value


def _is_finite(value: Any) -> bool:
    number = number_of(value)
    return number is not None and math.isfinite(number)
