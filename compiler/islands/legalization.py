"""How operators of Relax become TIR in islands, where TVM's own way is slow or unsafe. This module imports TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx, topi

Legalize = Callable[[Any, Any], Any]


def _take(builder: Any, call: Any) -> Any:
    """Indices out of bounds are clipped: TVM's own default reads wherever they point."""
    data, indices = call.args
    return builder.call_te(topi.take, data, indices, call.attrs.axis, mode="clip")


def _gather_elements(builder: Any, call: Any) -> Any:
    def gathered(data: Any, indices: Any) -> Any:
        axis = int(call.attrs.axis) % len(data.shape)
        return topi.gather(
            data, axis, te.compute(indices.shape, lambda *at: _within(indices[at], data.shape[axis], indices.dtype))
        )

    return builder.call_te(gathered, *call.args)


def _gather_nd(builder: Any, call: Any) -> Any:
    def gathered(data: Any, indices: Any) -> Any:
        batch, rank = int(call.attrs.batch_dims), len(indices.shape)
        places = int(indices.shape[rank - 1])

        def clipped(first: Any, *at: Any) -> Any:
            """TVM has the places on the first axis."""
            found = indices[(*at, first)]
            for place in range(places):
                found = tirx.Select(first == place, _within(found, data.shape[batch + place], indices.dtype), found)
            return found

        return topi.gather_nd(data, te.compute((places, *list(indices.shape)[:-1]), clipped), batch)

    return builder.call_te(gathered, *call.args)


def _within(index: Any, extent: Any, dtype: str) -> Any:
    """An index of an axis, whatever it was."""
    zero, last = tirx.const(0, dtype), tirx.const(int(extent) - 1, dtype)
    return tirx.min(tirx.max(index, zero), last)


LEGALIZATIONS: dict[str, Legalize] = {
    "relax.take": _take,
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
}
