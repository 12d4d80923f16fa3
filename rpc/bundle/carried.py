"""The modules that a bundle carries: its command, and what that imports of this project."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import int8tune

# The second one is a process of its own: no import says that it is needed.
ROOTS = ("int8tune.rpc.bundle.command", "int8tune.rpc.board.server")
PACKAGES = ("int8tune.results", "int8tune.rpc")
"""What may be carried: neither needs TVM to be imported."""

_TOP = Path(int8tune.__file__).parents[1]
_MAIN = Path(__file__).with_name("main.py")


def carried_code() -> dict[str, bytes]:
    """The files by their names in the archive; of modules that are imported when they are needed, none."""
    code = {name: (_TOP / name).read_bytes() for name in sorted(set(map(_file_of, carried_modules())))}
    return {"__main__.py": _MAIN.read_bytes(), **code}


def carried_modules() -> frozenset[str]:
    """The roots, what they import of `PACKAGES` wherever it stands at the top of a module, and the packages of it."""
    found: set[str] = set()
    left = list(ROOTS)
    while left:
        module = left.pop()
        if module in found or not (_TOP / _file_of(module)).is_file():
            continue
        found.add(module)
        left += [name for name in imported_by(module) if name.startswith(PACKAGES)]
        left += [module.rpartition(".")[0]] if "." in module else []
    return frozenset(found)


def imported_by(module: str) -> Iterator[str]:
    """Names of what a module imports when it is imported: modules, and what may be one in a package."""
    for node in ast.parse((_TOP / _file_of(module)).read_bytes()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file_of(module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (_TOP / path).is_dir() else f"{path}.py"
