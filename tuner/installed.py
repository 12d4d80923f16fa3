"""What is installed of that which only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

from int8tune.tuner.errors import NoTvmError

TUNING = ("tvm", "tvm_ffi", "xgboost")
"""Modules of the extra `tune`: records are read, compared and reported without them."""


def require_tuning() -> None:
    """Nothing, where kernels can be compiled and measured.

    Raises:
        NoTvmError: a module of the extra `tune` is not installed.
    """
    if missing := [name for name in TUNING if find_spec(name) is None]:
        raise NoTvmError(f"kernels are compiled and measured with what is not installed: {', '.join(missing)}")
