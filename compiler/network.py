"""Networks as tables of the int8 layers they run.

A row is one distinct workload, its `count` how many layers of the network have it, its `name` the name of the first of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from int8tune.results.json_forms import number_over, printable_text, whole_number
from int8tune.schedules.workload import Workload

MAX_TEXT = 1000
MAX_MACS = 10**18


@dataclass(frozen=True, slots=True)
class Layer:
    """A distinct layer: `count` layers of the network have this workload.

    Attributes:
        names: of these layers, of the first one at least; what one kernel computes together has one name.
    """

    names: tuple[str, ...]
    count: int
    workload: Workload

    @property
    def name(self) -> str:
        """The name of the first layer."""
        return self.names[0]

    @property
    def macs(self) -> int:
        """Multiply-adds of all `count` layers."""
        return self.count * self.workload.macs


@dataclass(frozen=True, slots=True)
class Published:
    """What others say that a network costs, to check its table against.

    Attributes:
        macs: multiply-adds of one inference.
        tolerance: how far the table may be from it, as a share of it.
        source: paper and table, or the documentation that has the figure.
        counts: what the figure counts.
        macs_not_in_table: the part of it that belongs to no layer of the table.
    """

    macs: Annotated[float, number_over(0, MAX_MACS)]
    tolerance: Annotated[float, number_over(0, 1)]
    source: Annotated[str, printable_text(MAX_TEXT)]
    counts: Annotated[str, printable_text(MAX_TEXT)]
    macs_not_in_table: Annotated[int, whole_number(0, MAX_MACS)] = 0

    def deviation(self, macs: int) -> float:
        """How far a table of `macs` multiply-adds is from the published figure, as a share of it."""
        return (macs + self.macs_not_in_table) / self.macs - 1


@dataclass(frozen=True, slots=True)
class Network:
    """The int8 layers of a network, each distinct one once, in the order of their first use.

    Attributes:
        input_shape: of the whole network; None where a table does not say.
    """

    name: str
    description: str
    input_shape: tuple[int, ...] | None
    layers: tuple[Layer, ...]
    published: Published | None = None

    @property
    def macs(self) -> int:
        """Multiply-adds of one inference, as far as the table's layers do them."""
        return sum(layer.macs for layer in self.layers)


def of_several_sizes(networks: Sequence[Network]) -> Network:
    """A network that was read for inputs of several sizes: the layers of all, as often as a run of each has them."""
    if len(networks) == 1:
        return networks[0]
    merged: dict[Workload, Layer] = {}
    for layer in (layer for network in networks for layer in network.layers):
        known = merged.get(layer.workload, Layer((), 0, layer.workload))
        names = tuple(dict.fromkeys((*known.names, *layer.names)))
        merged[layer.workload] = Layer(names, known.count + layer.count, layer.workload)
    description = f"{networks[0].description}, for inputs of {len(networks)} sizes"
    return replace(networks[0], description=description, input_shape=None, layers=tuple(merged.values()))
