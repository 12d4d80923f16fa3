"""Names in sets that can be joined."""

from __future__ import annotations


class Sets:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """All names, in the order in which they came."""
        return list(self._parents)

    def add(self, name: str) -> None:
        """Put a name into a set of its own, unless it is in one."""
        self._parents.setdefault(name, name)

    def root(self, name: str) -> str:
        """The name that stands for its set."""
        self.add(name)
        while self._parents[name] != name:
            name = self._parents[name]
        return name

    def join(self, one: str, other: str) -> None:
        """Make one set of two."""
        self._parents[self.root(one)] = self.root(other)
