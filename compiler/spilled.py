"""Large arrays of a compilation in a file of its own, from which they are read where they are needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.program import Call
from int8tune.compiler.toolchain.stand_ins import digest_of

Array = npt.NDArray[Any]

LEAST_BYTES = 1 << 18


class Spilled:
    """What was written so far; equal arrays once. The file may be deleted while its arrays are in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._known: dict[tuple[str, tuple[int, ...], bytes], Array] = {}

    def call(self, call: Call) -> Call:
        """The call, its large constants read from the file.

        Raises:
            OSError: the file can't be written.
        """
        arguments = tuple(each if isinstance(each, str) else self._array(each) for each in call.arguments)
        return replace(call, arguments=arguments)

    def _array(self, array: Array) -> Array:
        if array.nbytes < LEAST_BYTES or array.dtype.hasobject:
            return array
        array = np.ascontiguousarray(array)
        content = array.reshape(-1).view(np.uint8).data
        digest = digest_of(array)
        key = str(array.dtype), array.shape, digest
        if key not in self._known:
            with self._path.open("ab") as file:
                file.write(content)
            self._known[key] = np.memmap(self._path, array.dtype, "r", self._size, array.shape)
            self._known[key].digest = digest  # type: ignore[attr-defined]
            self._size += array.nbytes
        return self._known[key]
