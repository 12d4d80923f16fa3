"""Which names a program makes, empties, renames or removes in a folder: noted by each of its Python processes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HOOK = Path(__file__).parent / "written_names"


@dataclass(frozen=True, slots=True)
class Written:
    """A name, by the process that used it.

    Attributes:
        path: relative to the folder.
        kind: `file` or `folder`; `any` where only a rename told of it.
    """

    pid: int
    kind: str
    path: Path

    @property
    def has_pid(self) -> bool:
        """Whether others can tell the name before it is there, by the process's number."""
        return str(self.pid) in re.findall(r"\d+", self.path.name)


class NameLog:
    """The names that were used by programs started with `environment`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        log.touch()

    @property
    def environment(self) -> Mapping[str, str]:
        paths = os.pathsep.join(filter(None, [str(_HOOK), os.environ.get("PYTHONPATH")]))
        return {"PYTHONPATH": paths, "WRITTEN_NAMES_LOG": str(self._log)}

    def names_in(self, folder: Path) -> list[Written]:
        found: dict[Written, None] = {}
        for line in self._log.read_text().splitlines():
            pid, kind, path = line.split("\t")
            if Path(path) != folder and Path(path).is_relative_to(folder):
                found[Written(int(pid), kind, Path(path).relative_to(folder))] = None
        return list(found)
