"""What a compiled kernel is made of, as text that two kernels share only if their code is the same.

This module imports TVM.
"""

from __future__ import annotations

import functools
import hashlib
import json
from importlib.metadata import version
from typing import Any

import tvm

from int8tune.schedules.lowering import llvm_options, pass_options
from int8tune.schedules.target import Target

SYMBOL = "global_symbol"
_DIGITS = 32


def function_digest(function: Any) -> str:
    """A digest of a PrimFunc, whatever it is called."""
    text = tvm.ir.save_json(function.without_attr(SYMBOL))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def object_key(name: str, function: Any, target: Target) -> str:
    """A digest of all that the object file of a PrimFunc depends on: it, its name, the target, and what compiles it.

    Args:
        name: of the function, with its `function_digest`.
        function: or a module of several, which follow from that one.
    """
    parts = {
        "name": " ".join(names_in(name, function)),
        "target": {option: str(value) for option, value in llvm_options(target).items()},
        "passes": {option: str(value) for option, value in pass_options(function).items()},
        "compiler": _compiler(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def names_in(name: str, function: Any) -> list[str]:
    """What may be called in the object file of a PrimFunc of that name, or of a module."""
    several = isinstance(function, tvm.IRModule)
    return sorted(each.name_hint for each in function.get_global_vars()) if several else [name]


@functools.cache
def _compiler() -> list[str]:
    """Versions of this program, of TVM and of LLVM, and TVM's libraries, by when they were written."""
    libraries = (path for folder in tvm.libinfo.package_lib_paths() for path in sorted(folder.glob("libtvm*.so")))
    return [
        version("int8tune"),
        tvm.__version__,
        str(tvm.target.codegen.llvm_version_major()),
        tvm.target.codegen.llvm_get_system_triple(),
        *(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in libraries),
    ]
