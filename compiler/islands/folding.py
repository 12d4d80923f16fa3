"""What is made of constants alone, computed by numpy. This module imports TVM.

TVM folds constants, too, by a function that it compiles for each, in the time of one of the island's own kernels: its
importer asks of every bound of a Clip whether it is a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import GenericConst
from tvm.ir.transform import module_pass
from tvm.relax.expr_functor import PyExprMutator, mutator

from int8tune.compiler.islands.expressions import rewritten

Array = npt.NDArray[Any]
Fold = Callable[[Any, Sequence[Array]], Array | None]
"""What a call makes of its constants; None leaves it to TVM."""


def _reshaped(call: Any, arrays: Sequence[Array]) -> Array:
    return arrays[0].reshape(_shape(call))


def _broadcast(call: Any, arrays: Sequence[Array]) -> Array:
    return np.broadcast_to(arrays[0], _shape(call))


def _transposed(call: Any, arrays: Sequence[Array]) -> Array:
    axes = call.attrs.axes
    return arrays[0].transpose(None if axes is None else [int(axis) for axis in axes])


def _cast(call: Any, arrays: Sequence[Array]) -> Array | None:
    """Only to a type that has all values of the other one."""
    element = str(call.ty.dtype)
    return arrays[0].astype(element) if np.can_cast(arrays[0].dtype, element, "safe") else None


def _shape(call: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in call.ty.shape)


FOLDS: dict[str, Fold] = {
    **dict.fromkeys(("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze"), _reshaped),
    "relax.broadcast_to": _broadcast,
    "relax.permute_dims": _transposed,
    "relax.astype": _cast,
    "relax.isnan": lambda _, arrays: np.isnan(arrays[0]),
    "relax.where": lambda _, arrays: np.where(*arrays),
}


@module_pass(opt_level=0, name="FoldByNumpy")  # type: ignore[untyped-decorator]
def fold_by_numpy(module: Any, _context: Any) -> Any:
    """Put constants in the place of what is made of constants alone."""
    return rewritten(module, _Folding)


@mutator
class _Folding(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        made = super().visit_call_(call)
        fold = FOLDS.get(getattr(made.op, "name", ""))
        if fold is None:
            return made
        values = [self._constant(each) for each in made.args if not isinstance(each, relax.ShapeExpr)]
        if any(value is None for value in values):
            return made
        array = fold(call, [value.value.numpy() for value in values])
        element = str(call.ty.dtype)
        if array is None or (array.shape, str(array.dtype)) != (_shape(call), element):
            return made
        return relax.const(array, element)  # which would make binary32 of binary64

    def _constant(self, expression: Any) -> Any:
        """A constant, or what a variable stands for if it is one."""
        found = self.lookup_binding(expression) if isinstance(expression, relax.Var) else expression
        return found if isinstance(found, GenericConst) else None
