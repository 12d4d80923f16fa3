"""Operators on binary16 that add up or approximate, computed in binary32. This module imports TVM."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.ir.transform import module_pass
from tvm.relax.expr_functor import PyExprMutator, mutator

from int8tune.compiler.islands.expressions import rewritten
from int8tune.compiler.islands.legalization import LEGALIZATIONS

_MOVING = ("relax.take", "relax.gather_elements", "relax.gather_nd", "relax.max", "relax.min")
_WIDENED = {
    *(name for name in LEGALIZATIONS if name not in _MOVING),
    *("relax.nn.group_norm", "relax.nn.instance_norm", "relax.nn.rms_norm"),
    *("relax.nn.batch_norm", "relax.nn.conv3d", "relax.nn.conv1d_transpose", "relax.nn.conv3d_transpose"),
    *("relax.nn.avg_pool1d", "relax.nn.avg_pool2d", "relax.nn.avg_pool3d", "relax.nn.adaptive_avg_pool2d"),
    *("relax.std", "relax.prod", "relax.cumsum", "relax.einsum"),
    *("relax.rsqrt", "relax.tan", "relax.sinh", "relax.cosh"),
}


@module_pass(opt_level=0, name="WidenHalf")  # type: ignore[untyped-decorator]
def widen_half(module: Any, _context: Any) -> Any:
    """Compute in binary32 what would add up rounding errors of binary16: each result is rounded once."""
    return rewritten(module, _Widening)


@mutator
class _Widening(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        made = super().visit_call_(call)
        name = getattr(made.op, "name", "")
        if name not in _WIDENED or _dtype(call) != "float16":
            return made
        wide = [relax.op.astype(each, "float32") if _dtype(each) == "float16" else each for each in made.args]
        inner = self.builder_.emit(relax.Call(made.op, wide, made.attrs))
        return relax.op.astype(inner, "float16")


def _dtype(expression: Any) -> str:
    """The type of a tensor's values; nothing for what is no tensor."""
    return str(getattr(getattr(expression, "ty", None), "dtype", ""))
