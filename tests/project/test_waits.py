"""No wait without a limit: a walk over the project's own source, with the few exceptions and why they end."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.promise(22)

PACKAGES = ("compiler", "quantize", "results", "rpc", "schedules", "tuner")

# Where a wait ends though its call does not say when: file, function, what is called; and why it does.
ALLOWED = {
    ("rpc/wire/framing.py", "receive_some", "recv"): "MSG_DONTWAIT, after a poll with a limit",
    ("rpc/streams/pipe.py", "receive", "recv"): "after `wait_readable` with a limit",
    ("rpc/streams/ssh.py", "receive", "recv"): "`_limit` has set the channel's time-out",
    ("rpc/streams/ssh.py", "_drain", "recv"): "only what `recv_ready` says is there",
    ("rpc/streams/ssh.py", "_drain", "recv_stderr"): "only what `recv_stderr_ready` says is there",
    ("rpc/streams/ssh.py", "last_words", "recv_stderr"): "only what `recv_stderr_ready` says is there",
    ("rpc/bundle/results_file.py", "read_lines", "readline"): "`require_file` lets nothing in but files",
    ("rpc/farm/journal.py", "__init__", "readline"): "what is no file was refused before",
    ("results/postgresql/spool.py", "batches", "readline"): "`hold_own` lets nothing in but files",
    ("results/postgresql/spool.py", "_whole", "readline"): "`hold_own` lets nothing in but files",
    ("tuner/lab/metaschedule.py", "_lines", "readline"): "what is no file was refused before",
    ("tuner/models/compiling.py", "_on_deep_stack", "result"): "whoever asked ends the process when its time is over",
    ("tuner/watching/server.py", "_head_of", "recv"): "`settimeout` has set what is left of the deadline",
    ("rpc/farm/driver.py", "_work", "get"): "a board's thread has nothing else to do; `end` sends it None",
}


def _names(call: ast.Call) -> set[str]:
    return {keyword.arg or "" for keyword in call.keywords}


def _bare(call: ast.Call) -> bool:
    """Without any argument."""
    return not call.args and not call.keywords


def _without(name: str) -> Callable[[ast.Call], bool]:
    return lambda call: name not in _names(call)


def _always(_: ast.Call) -> bool:
    return True


def _without_word(*words: str) -> Callable[[ast.Call], bool]:
    return lambda call: not any(word in ast.unparse(call) for word in words)


# By what a call is of, as a pattern of its text, when it may wait for ever.
RULES: dict[str, Callable[[ast.Call], bool]] = {
    r".*\.recv_exit_status": _always,
    r".*\.(recv|recv_into|recv_stderr|recvfrom|recvmsg|accept)": _always,
    r".*\.(join|result|wait|acquire)": _bare,
    r"(?!.*builder).*\.get": _bare,
    r".*\.communicate": _without("timeout"),
    r"subprocess\.(run|call|check_call|check_output)": _without("timeout"),
    r"(socket\.)?create_connection": _without("timeout"),
    r"(urllib\.request\.)?urlopen": _without("timeout"),
    r"(os\.)?waitpid": _without_word("WNOHANG"),
    r"(os\.)?wait[34]?": _bare,
    r"(fcntl\.)?(flock|lockf)": _without_word("LOCK_NB", "LOCK_UN"),
    r"(select\.)?select": lambda call: len(call.args) == 3 and all(isinstance(arg, ast.List) for arg in call.args),
    r"(poll|.*_poll)\.poll": _bare,
    r".*\.readline": _always,
    r"(threading\.)?Thread": _without_word("daemon=True"),
    r"asyncio\.run": _always,
}


def waits(source: str, file: str) -> Iterator[tuple[str, str, str]]:
    """The calls that may wait for ever: file, the innermost function, what is called."""
    yield from _waits_in(ast.parse(source), file, "")


def _waits_in(node: ast.AST, file: str, function: str) -> Iterator[tuple[str, str, str]]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Call):
            text = ast.unparse(child.func)
            if any(re.fullmatch(pattern, text, re.DOTALL) and rule(child) for pattern, rule in RULES.items()):
                yield file, function, text.rpartition(".")[2]
        yield from _waits_in(child, file, inside)


def test_no_wait_of_ours_is_without_a_limit() -> None:
    found = {
        wait
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for wait in waits(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    }
    assert sorted(found - ALLOWED.keys()) == []
    assert sorted(ALLOWED.keys() - found) == [], "exceptions that nothing needs any more"


@pytest.mark.parametrize(
    "line",
    [
        "channel.recv_exit_status()",
        "sock.recv(100)",
        "server.accept()",
        "thread.join()",
        "future.result()",
        "process.wait()",
        "lock.acquire()",
        "self._queue.get()",
        "process.communicate(b'')",
        "subprocess.run(['ls'], check=True)",
        "socket.create_connection(('a', 1))",
        "os.waitpid(pid, 0)",
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "select.select([a], [], [])",
        "poll.poll()",
        "process.stdout.readline()",
        "threading.Thread(target=work)",
    ],
)
def test_a_wait_without_a_limit_is_found(line: str) -> None:
    source = f"class A:\n    def f(self):\n        return [{line}]\n"
    assert [found[:2] for found in waits(source, "a.py")] == [("a.py", "f")]


@pytest.mark.parametrize(
    "line",
    [
        "', '.join(words)",
        "thread.join(5)",
        "future.result(timeout=limit_s)",
        "process.wait(END_LIMIT_S)",
        "values.get('name')",
        "process.poll()",
        "subprocess.run(['ls'], timeout=5)",
        "os.waitpid(-1, os.WNOHANG)",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "poll.poll(100)",
    ],
)
def test_a_wait_with_a_limit_is_not(line: str) -> None:
    assert list(waits(line, "a.py")) == []


def test_the_agent_waits_for_no_child_and_for_no_message_without_a_limit() -> None:
    """In C++, by its text."""
    for path in (ROOT / "rpc" / "agent").glob("*.cc"):
        text = path.read_text(encoding="utf-8")
        assert all("WNOHANG" in call for call in re.findall(r"waitpid\([^;]*?\)", text)), path
        assert not re.search(r"\bpoll\([^;]*, -1\)", text), path
        assert "flock(file, LOCK_EX)" not in text, path
