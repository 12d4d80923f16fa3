"""What `--notify` is told of a run of `tune`."""

from __future__ import annotations

import shlex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from int8tune.results.provenance import command_line
from int8tune.tuner.cli.output import say

if TYPE_CHECKING:
    from int8tune.tuner.api.tune import CampaignResult

FAILED = "failed"


class Telling:
    """Tells at the end of what it is entered for, whether or not that failed. Interrupted before any end, it is silent.

    What goes wrong with it is a line, and changes nothing.
    """

    def __init__(self, target: str | None, command: str) -> None:
        """Check whom to tell.

        Args:
            command: what was typed; its secrets are not told.

        Raises:
            SpecError: neither a URL nor a command that is there.
        """
        from int8tune.tuner.notifying import Notifier

        self._notifier = None if target is None else Notifier(target)
        self._command = command_line(shlex.split(command))
        self._results: list[CampaignResult] = []
        self._errors: list[str] = []

    def add(self, result: CampaignResult) -> None:
        """A campaign has ended."""
        self._results.append(result)

    def add_error(self, campaign: str, error: Exception) -> None:
        """A campaign has failed, others go on."""
        self._errors.append(f"{campaign}: {' '.join(str(error).split()) or type(error).__name__}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self._tell(FAILED, " ".join(str(error).split()) or type(error).__name__)
        elif error is None and self._errors:
            self._tell(FAILED, "; ".join(self._errors))
        elif error is None and self._results:
            self._tell(self._results[-1].ending.value)

    def _tell(self, ending: str, error: str = "") -> None:
        from int8tune.tuner.notifying import Notification

        if self._notifier is None:
            return
        notification = Notification(ending, error, self._command, [_fields(each) for each in self._results])
        if fault := self._notifier.tell(notification):
            say(f"--notify did not work, {self._notifier.name}: {fault}")


def _fields(result: CampaignResult) -> dict[str, Any]:
    from int8tune.results.report.text import as_dict

    about = {"name": result.name, "ending": result.ending.value, "report": str(result.report)}
    return as_dict(result.summary) | about
