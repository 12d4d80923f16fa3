"""One operator of those that a node becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from int8tune.compiler.graph import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One operator; those that are layers have the activations behind the node."""

    kind: Kind
    inputs: tuple[str, ...]
    made: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_layer: bool = False
