"""What a user says of a model that its file leaves open, and where it is to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Given:
    """What a user says of a model.

    Attributes:
        bind: values of inputs that become constants, such as scales.
        shapes: of inputs that have unknown extents in the file.
        until: values that become the outputs, in place of the model's own; none: it is taken whole.
    """

    bind: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    until: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bind or self.shapes or self.until)


NOTHING_GIVEN = Given()
