"""What TVM's importer of ONNX writes out in parts, as kernels of their own. This module imports TVM.

Softplus, and its hyperbolic tangent (x times that is Mish): the importer makes two functions of one, and three of the
other. Sums and means of squares, which it makes of squares in memory. Numbers as int32, which it wraps.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.ir.transform import module_pass
from tvm.relax.expr_functor import PyExprMutator, mutator

from int8tune.compiler.islands import functions, rows
from int8tune.compiler.islands.expressions import is_written, name_of, number_of, of_each, rewritten
from int8tune.compiler.islands.functions import number

LOGARITHM, TANGENT, INTEGER = "log_of_one_and_power", "tanh_of_softplus", "integer"
LEAST_INTEGER = -(2.0**31)


@module_pass(opt_level=0, name="JoinParts")  # type: ignore[untyped-decorator]
def join_parts(module: Any, _context: Any) -> Any:
    """Compute at once what has been written out in parts."""
    return rewritten(module, _Joining)


@mutator
class _Joining(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        made = super().visit_call_(call)
        found = None
        match name_of(made):
            case "relax.log" if (exponent := self._exponent(made.args[0])) is not None:
                found = of_each(self.builder_, functions.softplus, exponent, LOGARITHM)
            case "relax.tanh" if (value := self._of_softplus(made.args[0])) is not None:
                found = of_each(self.builder_, functions.tangent_of_softplus, value, TANGENT)
            case "relax.sum" | "relax.mean" if (value := self._squared(made.args[0])) is not None:
                found = rows.of_squares(self.builder_, made, value)
            case "relax.astype" if (value := self._wrapped(made)) is not None:
                found = of_each(self.builder_, _integer, value, INTEGER)
        return made if found is None else found

    def _squared(self, value: Any) -> Any | None:
        """x of x * x or x^2, in binary32."""
        one, other = self._arguments("relax.multiply", value) or (None, None)
        if one is not None and one.same_as(other):
            return one
        base, exponent = self._arguments("relax.power", value) or (None, None)
        return base if exponent is not None and number_of(exponent) == 2.0 else None

    def _wrapped(self, call: Any) -> Any | None:
        """x in binary32 of an int32 that the importer made of it: its whole part's remainder by 2^32, with a sign."""
        chosen = self._arguments("relax.where", call.args[0])
        if str(call.attrs.dtype) != "int32" or not chosen:
            return None
        is_large, lowered, remainder = chosen
        divided = self._arguments("relax.floor_mod", remainder)
        parts = (
            (self._arguments("relax.greater_equal", is_large), remainder, 2.0**31),
            (self._arguments("relax.subtract", lowered), remainder, 2.0**32),
            (divided, divided[0] if divided else None, 2.0**32),
        )
        if not all(
            found and found[0].same_as(value) and number_of(found[1]) == number for found, value, number in parts
        ):
            return None
        whole = divided[0]
        values = self._arguments("relax.astype", whole) if whole.ty.dtype.dtype == "int64" else []
        return next((x for x in map(self._unchecked, values) if x.ty.dtype.dtype == "float32"), None)

    def _unchecked(self, value: Any) -> Any:
        """x of what is x where x is finite, and 0 elsewhere; any other value as it is."""
        refused, zero, finite = self._arguments("relax.where", value) or (None, None, None)
        for checked in self._arguments("relax.logical_not", refused):
            for x in self._arguments("relax.isfinite", checked):
                if x.same_as(finite) and number_of(zero) == 0.0:
                    return x
        return value

    def _exponent(self, value: Any) -> Any | None:
        """x of 1 + e^x, in binary32."""
        terms = self._arguments("relax.add", value)
        powers = [self._arguments("relax.exp", term) for term in terms]
        for other, power in zip(terms[::-1], powers, strict=True):
            if power and number_of(other) == 1.0 and power[0].ty.dtype.dtype == "float32":
                return power[0]
        return None

    def _of_softplus(self, value: Any) -> Any | None:
        """x of log(1 + e^x), or of the larger of x and 0 and log(1 + e^-|x|), which is the same."""
        if plain := self._arguments(LOGARITHM, value):
            return plain[0]
        terms = self._arguments("relax.add", value)
        for larger, rest in (terms, terms[::-1]) if terms else ():
            bounded, logarithm = self._arguments("relax.maximum", larger), self._arguments(LOGARITHM, rest)
            if not bounded or not logarithm or number_of(bounded[1]) != 0.0:
                continue
            for negated in self._arguments("relax.negative", logarithm[0]):
                if any(magnitude.same_as(bounded[0]) for magnitude in self._arguments("relax.abs", negated)):
                    return bounded[0]
        return None

    def _arguments(self, operator: str, value: Any) -> list[Any]:
        """Those of the operator that makes a value; none of another one."""
        found = self.lookup_binding(value) if isinstance(value, relax.Var) else value
        if name_of(found) != operator:
            return []
        return list(found.args[1] if is_written(found) else found.args)


def _integer(value: Any) -> Any:
    """The whole part, or the least int32 of what has none: as x86 converts (CVTTSS2SI), and so ONNX Runtime there."""
    least = number(LEAST_INTEGER)
    has_one = tirx.all(value >= least, value < -least)
    return tirx.Select(has_one, value, least).astype("int32")
