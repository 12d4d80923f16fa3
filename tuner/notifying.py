"""Tells somebody that a campaign has ended, by a command or by a request to a URL. What fails of that is a line.

The command is started as it is, without a shell. It gets the summary as JSON on its stdin, and the facts in its
environment; a URL gets the same JSON by POST.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from int8tune.results.text import printable
from int8tune.tuner.errors import SpecError

FORMAT = 1
LIMIT_S = 10.0
_LONGEST_FAULT = 200
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Notification:
    """How a run of `tune` ended.

    Attributes:
        ending: `finished`, `interrupted`, `out of time` or `failed`.
        error: why it failed, in a line; else empty.
        campaigns: their summaries as JSON has them.
    """

    ending: str
    error: str
    command: str
    campaigns: Sequence[Mapping[str, Any]]

    def as_json(self) -> bytes:
        value = {
            "format": FORMAT,
            "ending": self.ending,
            "error": self.error or None,
            "command": self.command,
            "campaigns": list(self.campaigns),
        }
        return json.dumps(value, allow_nan=False).encode()

    def facts(self) -> dict[str, str]:
        """For a command's environment."""
        return {
            "INT8TUNE_ENDING": self.ending,
            "INT8TUNE_ERROR": self.error.replace("\0", ""),
            "INT8TUNE_CAMPAIGNS": " ".join(str(each["name"]) for each in self.campaigns),
            "INT8TUNE_REPORTS": " ".join(str(each["report"]) for each in self.campaigns),
        }


class Notifier:
    """Tells a command line, or an `http://` or `https://` URL."""

    def __init__(self, target: str) -> None:
        """Check what can be checked before a campaign of hours.

        Raises:
            SpecError: neither a URL nor a command that is there.
        """
        self._url = target if target.partition("://")[0].lower() in _SCHEMES else ""
        self._words = [] if self._url else _words(target)
        if self._url and not _host(self._url):
            raise SpecError("a URL to notify has a host, such as https://example.org/hook")

    def tell(self, notification: Notification) -> str:
        """Tell it; why it did not work, in a line, or an empty text. Takes little more than `LIMIT_S` at most."""
        try:
            fault = self._post(notification) if self._url else self._run(notification)
        except (OSError, ValueError) as error:
            fault = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return printable(" ".join(fault.split()))[:_LONGEST_FAULT]

    @property
    def name(self) -> str:
        """What may be shown of it: of a URL, whose path is often a secret, the host."""
        return printable(_host(self._url) if self._url else self._words[0])

    def _run(self, notification: Notification) -> str:
        process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **notification.facts()},
            start_new_session=True,
        )
        try:
            process.communicate(notification.as_json(), timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return _too_slow()
        finally:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(LIMIT_S)
        return f"ended with exit code {process.returncode}" if process.returncode else ""

    def _post(self, notification: Notification) -> str:
        """On a thread: each step of a request has its limit, all of them together have none."""
        found = [_too_slow()]
        thread = threading.Thread(target=lambda: found.append(_posted(self._url, notification.as_json())), daemon=True)
        thread.start()
        thread.join(LIMIT_S)
        return found[-1]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The summary goes where the user said, nowhere else."""


def _posted(url: str, content: bytes) -> str:
    try:
        request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=LIMIT_S):
            return ""
    except urllib.error.HTTPError as error:
        return f"answered {error.code} {error.reason}"
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            return _too_slow()
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except TimeoutError:
        return _too_slow()
    except Exception as error:  # http.client's, which has many: none may end a campaign
        return f"{type(error).__name__}: {error}"


def _too_slow() -> str:
    return f"took more than {LIMIT_S:g} s"


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SpecError(f"a command to notify can't be read ({str(error).lower()}): {command[:80]}") from error
    if not words or shutil.which(words[0]) is None:
        raise SpecError(f"no such command to notify: {words[0][:80] if words else '(empty)'}")
    return words


def _host(url: str) -> str:
    try:
        return urllib.parse.urlsplit(url).hostname or ""
    except ValueError:
        return ""
