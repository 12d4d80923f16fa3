"""Parts that other packages bring: what they register by entry points is found by its name and imported when needed.

A package's `pyproject.toml` says, for example:

    [project.entry-points."int8tune.strategies"]
    "annealing" = "my_package.annealing:make"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from int8tune.results.errors import ExtensionError
from int8tune.results.text import printable

TEMPLATES = "int8tune.templates"
"""Templates (`int8tune.schedules.template.Template`), or classes of them, by their names."""
STRATEGIES = "int8tune.strategies"
"""Functions of a space, a random generator and lessons that return a search strategy."""
PEERS = "int8tune.peers"
"""Libraries to compare with (`int8tune.tuner.bench.peers.base.Peer`), or classes of them, by their names."""
TRANSPORTS = "int8tune.transports"
"""Functions of a board that return a transport, by what the inventory calls it."""
STORES = "int8tune.stores"
"""Functions of a URL and `readonly` that return a store, by the URL's scheme."""

OWN = "int8tune"
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Part:
    """Something that another package brings, not imported yet.

    Attributes:
        owner: the package's name and version.
    """

    group: str
    name: str
    owner: str
    point: EntryPoint

    def load(self, needs: Sequence[str] = ()) -> Any:
        """The part, which must have the attributes `needs`; of a class that has them, an instance.

        Raises:
            ExtensionError: it can't be imported or made, or lacks something.
        """
        try:
            value = self.point.load()
            if isinstance(value, type) and needs:
                value = value()
        except Exception as error:  # whatever the other package raises
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
            raise self.error(f"can't be imported ({self.point.value}): {reason}") from error
        if missing := [name for name in needs if not hasattr(value, name)]:
            raise self.error(f"lacks {', '.join(missing)}: {self.point.value}")
        if "name" in needs and value.name != self.name:
            raise self.error(f"calls itself otherwise: {value.name!s:.60}")
        if not needs and not callable(value):
            raise self.error(f"must be a function: {self.point.value}")
        return value

    def error(self, what: str) -> ExtensionError:
        """A line that names the package."""
        return ExtensionError(printable(f"`{self.name}` of {self.owner} ({self.group}) {what}"))


@cache
def parts(group: str, own: tuple[str, ...] = ()) -> Mapping[str, Part]:
    """What other packages registered in a group, by name, in the order of the names.

    Args:
        own: names that this package has itself.

    Raises:
        ExtensionError: two have one name.
    """
    found: dict[str, Part] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        part = Part(group, point.name, _owner(point), point)
        if part.name in own:
            raise part.error(f"has the name of a part of {OWN} itself")
        if (other := found.get(part.name)) and other.point.value != point.value:
            raise part.error(f"has the name of a part of {other.owner}")
        found[part.name] = part
    return found


@cache
def loaded(group: str, own: tuple[str, ...], needs: tuple[str, ...]) -> tuple[Any, ...]:
    """All parts of a group.

    Raises:
        ExtensionError: one can't be used, or two have one name.
    """
    return tuple(part.load(needs) for part in parts(group, own).values())


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
