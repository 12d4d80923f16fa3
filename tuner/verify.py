"""The adversarial suite of a workload as files: operands and the oracle's outputs, written once, read by each build."""

from __future__ import annotations

import os
import uuid
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rpc.request import Case
from schedules.adversarial import adversarial_operands
from schedules.arguments import kernel_inputs
from schedules.operands import Operands
from schedules.reference import reference
from schedules.template import Kernel
from schedules.workload import Workload

SUITE_NAME = "adversarial-1"
SUITE_SEED = 0
_ARRAYS = ("data", "weight", "bias", "scale", "multiplier", "shift")
_NUMBERS = tuple(field.name for field in fields(Operands) if field.name not in _ARRAYS)


def write_suite(workload: Workload, folder: Path) -> None:
    """Write the cases `0.npz`, `1.npz`, ... of a workload, the one that will be timed first."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, (_, operands) in enumerate(adversarial_operands(workload, SUITE_SEED)):
        values = {name: getattr(operands, name) for name in (*_ARRAYS, *_NUMBERS)}
        np.savez(folder / f"{index}.npz", expected=reference(workload, operands), **values)


def write_cases(workload: Workload, kernel: Kernel, suite: Path, folder: Path) -> tuple[Case, ...]:
    """Write a kernel's arguments for each case of a suite; kernels of one shape share files."""
    cases = []
    for index in range(len(list(suite.glob("*.npz")))):
        operands, expected = _read_case(suite / f"{index}.npz")
        data, *others = kernel_inputs(workload, kernel, operands)
        files = [_share(suite, f"{index}.data", data)]
        for position, array in enumerate(others):
            files.append(folder / f"{index}.{position}.npy")
            np.save(files[-1], array)
        output = _share(suite, f"{index}.expected", expected.reshape(kernel.output_shape))
        cases.append(Case(tuple(map(str, files)), str(output)))
    return tuple(cases)


def _read_case(path: Path) -> tuple[Operands, npt.NDArray[Any]]:
    with np.load(path, allow_pickle=False) as values:
        numbers: dict[str, Any] = {name: int(values[name]) for name in _NUMBERS}
        return Operands(**{name: values[name] for name in _ARRAYS}, **numbers), values["expected"]


def _share(suite: Path, name: str, array: npt.NDArray[Any]) -> Path:
    path = suite / f"{name}.{'x'.join(map(str, array.shape))}.npy"
    if not path.exists():
        partial = suite / f"{uuid.uuid4().hex}.npy"
        np.save(partial, array)
        os.replace(partial, path)  # noqa: PTH105 - two builds may do this at once
    return path
