"""The adversarial suite of a workload as files: operands and the oracle's outputs, written once, read by each build."""

from __future__ import annotations

import math
import os
import uuid
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.rpc.request import Case
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.operands import Addend, Operands
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Workload

SUITE_NAME = "adversarial-5"
SUITE_SEED = 0
# The arguments of a kernel that are the same for all kernels of one shape.
_SHARED = {0: "data", 5: "residual"}
# Before the names of a residual's values.
_RESIDUAL = "residual."


def write_suite(workload: Workload, folder: Path) -> None:
    """Write the cases `0.npz`, `1.npz`, ... of a workload, the one that will be timed first."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, (_, operands) in enumerate(adversarial_operands(workload, SUITE_SEED)):
        write_case(folder / f"{index}.npz", workload, operands)


def suite_memory_bytes(workload: Workload) -> int:
    """About what it takes to compute a suite: operands of ten cases and, of one, outputs as int64 a few times over."""
    operands = math.prod(workload.data_shape) + math.prod(workload.weight_shape)
    return 10 * operands + 40 * math.prod(workload.output_shape)


def write_case(path: Path, workload: Workload, operands: Operands) -> None:
    """Write operands and the oracle's outputs for them."""
    np.savez(path, expected=reference(workload, operands), **_values(operands))


def read_case(path: Path) -> tuple[Operands, npt.NDArray[Any]]:
    """The operands and outputs that `write_case` wrote."""
    own: dict[str, Any] = {}
    residual: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as values:
        for name, array in values.items():
            value = array if array.ndim else int(array)
            (residual if name.startswith(_RESIDUAL) else own)[name.removeprefix(_RESIDUAL)] = value
    expected = own.pop("expected")
    return Operands(**own, residual=Addend(**residual) if residual else None), expected


def write_cases(workload: Workload, kernel: Kernel, suite: Path, folder: Path) -> tuple[Case, ...]:
    """Write a kernel's arguments for each case of a suite; kernels of one shape share files."""
    cases = []
    for index, (operands, expected) in enumerate(_read_suite(suite, (suite / "0.npz").stat().st_mtime_ns)):
        files = []
        for position, array in enumerate(kernel_inputs(workload, kernel, operands)):
            if position in _SHARED:
                files.append(_share(suite, f"{index}.{_SHARED[position]}", array))
                continue
            files.append(folder / f"{index}.{position}.npy")
            np.save(files[-1], array)
        output = _share(suite, f"{index}.expected", expected.reshape(kernel.output_shape))
        cases.append(Case(tuple(map(str, files)), str(output)))
    return tuple(cases)


@lru_cache(maxsize=1)
def _read_suite(folder: Path, _written_ns: int) -> tuple[tuple[Operands, npt.NDArray[Any]], ...]:
    """The cases of a suite; kept for the next candidate, which is mostly one of the same layer."""
    return tuple(read_case(folder / f"{index}.npz") for index in range(len(list(folder.glob("*.npz")))))


def _values(operands: Operands | Addend) -> dict[str, Any]:
    """Arrays and numbers by name, those of a residual with a prefix."""
    values = {field.name: getattr(operands, field.name) for field in fields(operands)}
    residual = values.pop("residual", None)
    return values | {f"{_RESIDUAL}{name}": value for name, value in (_values(residual) if residual else {}).items()}


def _share(suite: Path, name: str, array: npt.NDArray[Any]) -> Path:
    path = suite / f"{name}.{'x'.join(map(str, array.shape))}.npy"
    if not path.exists():
        partial = suite / f"{uuid.uuid4().hex}.npy"
        np.save(partial, array)
        os.replace(partial, path)  # noqa: PTH105 - two builds may do this at once
    return path
