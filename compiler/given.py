"""What a user says of a model's inputs, which its file leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Given:
    """What a user says of a model's inputs.

    Attributes:
        bind: values of inputs that become constants, such as scales.
        shapes: of inputs that have unknown extents in the file.
    """

    bind: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


NOTHING_GIVEN = Given()
