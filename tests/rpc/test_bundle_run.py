"""A bundle on a device, run by a Python that has nothing but its standard library: real kernels, kills, refusals."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import zlib
from pathlib import Path

import psutil
import pytest

from int8tune.rpc.bundle.archive import Bundle
from int8tune.rpc.bundle.results_file import Began, Damage, Result, read_lines
from tests.support.farm.boards import A53, CROSS_COMPILER, marked, why_no_a53
from tests.support.farm.bundles import AT_ANY_SPEED, bare_python, pack, run, start
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.cli_program import int8tune
from tests.support.program.waiting import wait_until
from tests.tuner.bundles.test_file import rewritten

pytestmark = pytest.mark.promise(7, 11, 19)

ITEMS = {
    "good": ["good"],
    "pair": ["good", "takes_a_while"],
    "crash": ["segfault"],
    "good again": ["good"],
    "wrong": ["wrong_value"],
    "hang": ["hangs"],
    "prints": ["prints"],
    "noise": ["makes_noise"],
    "past": ["past_end"],
    "last": ["takes_a_while"],
}
OUTCOMES = {
    "crash": ("run_failed", "Crash"),
    "wrong": ("wrong_answer", "WrongValues"),
    "hang": ("run_timeout", "Timeout"),
    "noise": ("run_failed", "BadAnswer"),
    "past": ("wrong_answer", "OutOfBounds"),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


def replies(bundle: Bundle) -> dict[str, list[dict[str, object]]]:
    """What is in the results, by item."""
    found: dict[str, list[dict[str, object]]] = {}
    for _, line in read_lines(bundle.path.with_suffix(".results")):
        assert not isinstance(line, Damage)
        assert line.bundle == bundle.id
        if isinstance(line, Result):
            assert isinstance(line.reply, dict)
            found.setdefault(line.item, []).append(line.reply)
    return found


def has_begun(bundle: Bundle) -> bool:
    """Whether its agent runs and sessions may."""
    results = bundle.path.with_suffix(".results")
    return results.exists() and any(isinstance(line, Began) for _, line in read_lines(results))


def left_over(bundle: Bundle) -> list[psutil.Process]:
    folder = bundle.path.parent / f".{bundle.path.stem}.work" / "agent"
    deadline = time.monotonic() + 5
    while (processes := marked(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return processes


def test_what_is_right_is_timed_and_what_is_not_is_named(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, ITEMS)
    ended = run(python, bundle.path)
    assert ended.code == 0, ended.err
    found = replies(bundle)
    assert set(found) == set(ITEMS)
    for item, (reply,) in found.items():
        assert (reply["outcome"], reply["error_class"]) == OUTCOMES.get(item, ("ok", "")), reply
        assert len(reply["times_s"]) == (len(ITEMS[item]) if item not in OUTCOMES else 0)  # type: ignore[arg-type]
    assert not (tmp_path / ".b.work").exists()
    assert left_over(bundle) == []
    before = bundle.path.with_suffix(".results").read_bytes()
    again = run(python, bundle.path)
    assert again.code == 0
    assert f"nothing is left to do, {len(ITEMS)} are measured" in again.err
    assert bundle.path.with_suffix(".results").read_bytes() == before


@pytest.mark.thorough
def test_a_session_killed_from_outside_is_measured_again(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    """Once: what is killed each time is recorded so. The first session, the canary's, is left alone."""
    bundle = pack(tmp_path / "b.pyz", kernels, {"killed": ["hangs"], "good": ["good"]})
    process = start(python, bundle.path)
    agent_folder, killed = str(tmp_path / ".b.work" / "agent"), set[int]()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        for session in marked(agent_folder):
            # Only the kernel that hangs lasts so long.
            if session.pid not in killed and _has_used_s(session, 0.2):
                session.kill()
                killed.add(session.pid)
        time.sleep(0.02)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 0, err
    assert len(killed) == 2
    assert b"a session was killed from outside, it is repeated: in case 0: killed by SIGKILL" in err
    ((bad,), (good,)) = (replies(bundle)[item] for item in ("killed", "good"))
    assert (bad["outcome"], bad["error_class"], good["outcome"]) == ("run_failed", "Killed", "ok")


def _has_used_s(session: psutil.Process, seconds: float) -> bool:
    """Whether a process, which may end meanwhile, is an agent's session that has computed for so long."""
    try:
        parent = session.parent()
        is_session = parent is not None and parent.cmdline() == session.cmdline()
        return is_session and session.cpu_times().user > seconds
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("count", "delays_s"), [(25, (0.1, 1.2)), pytest.param(60, (0.1, 0.8, 1.6, 2.4), marks=pytest.mark.thorough)]
)
@pytest.mark.thorough
def test_killed_at_any_moment_it_goes_on(
    kernels: Kernels, python: Path, tmp_path: Path, count: int, delays_s: tuple[float, ...]
) -> None:
    """Each result is written once; what was written stays."""
    items = {f"item {number}": ["takes_a_while"] for number in range(count)}
    bundle = pack(tmp_path / "b.pyz", kernels, items)
    results = bundle.path.with_suffix(".results")
    rng = random.Random(0)
    written, kills = b"", 0
    for delay_s in delays_s:
        process = start(python, bundle.path)
        time.sleep(delay_s + 0.3 * rng.random())
        kills += process.poll() is None
        process.kill()
        process.communicate(timeout=10)
        now = results.read_bytes() if results.exists() else b""
        assert now.startswith(written[: written.rfind(b"\n") + 1])
        written = now
    assert kills >= 2
    ended = run(python, bundle.path)
    assert ended.code == 0, ended.err
    assert {item: len(found) for item, found in replies(bundle).items()} == dict.fromkeys(items, 1)
    assert left_over(bundle) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.pyz", "b.results", "b.staging"]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_leaves_nothing_and_goes_on(
    kernels: Kernels, python: Path, tmp_path: Path, number: signal.Signals
) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"hang": ["hangs"], "good": ["good"]}, run_limit_s=2.5)
    process = start(python, bundle.path)
    wait_until(lambda: has_begun(bundle), 40.0)
    began_s = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=10)
    assert time.monotonic() - began_s < 5
    assert process.returncode == 130
    assert err.decode().endswith("interrupted; to go on, run the same command again\n")
    assert not (tmp_path / ".b.work").exists()
    assert left_over(bundle) == []
    assert run(python, bundle.path).code == 0
    assert {item: reply["outcome"] for item, (reply,) in replies(bundle).items()} == {
        "hang": "run_timeout",
        "good": "ok",
    }


@pytest.mark.thorough
def test_a_line_that_was_being_written_is_measured_again(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"], "two": ["good"]})
    assert run(python, bundle.path).code == 0
    results = bundle.path.with_suffix(".results")
    whole = results.read_bytes()
    results.write_bytes(whole[:-20])
    assert run(python, bundle.path).code == 0
    assert {item: len(found) for item, found in replies(bundle).items()} == {"one": 1, "two": 1}
    assert results.read_bytes().startswith(whole[: whole[:-1].rfind(b"\n") + 1])


@pytest.mark.thorough
def test_two_at_once_are_one_too_many(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"hang": ["hangs"]}, run_limit_s=5.0)
    first = start(python, bundle.path)
    wait_until(lambda: has_begun(bundle), 40.0)
    second = run(python, bundle.path)
    first.terminate()
    first.communicate(timeout=10)
    assert second.code == 1
    assert second.errors == [f"error: another process measures this bundle: {bundle.path.with_suffix('.results')}"]


@pytest.mark.thorough
def test_another_device_is_refused(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    lacking = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]}, needs=("sse9", "fpu9"))
    ended = run(python, lacking.path)
    assert ended.code == 4
    assert ended.errors == ["error: this device can't run `any`, its CPU lacks: fpu9, sse9"]
    assert list(read_lines(tmp_path / "b.results")) == []
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[os.uname().machine]
    foreign = pack(tmp_path / "c.pyz", kernels, {"one": ["good"]}, architecture=other)
    ended = run(python, foreign.path)
    assert ended.code == 4
    assert ended.errors == [f"error: this bundle is for {other}, this device is: {os.uname().machine}"]


def test_a_changed_candidate_is_not_run(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]})
    library = bundle.manifest.items[0].request.programs[0].library
    changed = rewritten(bundle, tmp_path / "c.pyz", lambda name, data: data + b"x" if name == library else data)
    ended = run(python, changed)
    assert ended.code == 1
    (line,) = ended.errors
    assert line == f"error: the bundle is damaged, or no bundle: {changed}: `{library}` is not what was packed"
    assert list(read_lines(tmp_path / "c.results")) == []


@pytest.mark.thorough
def test_a_changed_runner_does_not_begin(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]})
    for name in ("int8tune/rpc/bundle/runner.py", "int8tune/rpc/errors.py", "int8tune/rpc/board/session.py"):
        changed = rewritten(bundle, tmp_path / "c.pyz", lambda file, data: data[:900] if file == name else data)  # noqa: B023
        ended = run(python, changed)
        assert ended.code == 1
        assert ended.err.count("error: the bundle is damaged") == 1, ended.err
        assert "Traceback" not in ended.err


@pytest.mark.thorough
def test_results_of_another_bundle_or_device_are_not_gone_on_with(
    kernels: Kernels, python: Path, tmp_path: Path
) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"], "two": ["good"]})
    assert run(python, bundle.path).code == 0
    results = bundle.path.with_suffix(".results")
    whole = results.read_bytes()
    other = pack(tmp_path / "c.pyz", kernels, {"one": ["good"]})
    shutil.copy(results, tmp_path / "c.results")
    ended = run(python, other.path)
    assert ended.code == 1
    assert ended.errors == [f"error: {tmp_path / 'c.results'}:1: results of another bundle: {bundle.id[:16]}"]
    began = next(line for _, line in read_lines(results) if isinstance(line, Began))
    text = whole.splitlines()[0].partition(b" ")[2].replace(began.capabilities.cpu.encode(), b"Abacus 1")
    results.write_bytes(b"%08x %s\n" % (zlib.crc32(text), text))
    ended = run(python, bundle.path)
    assert ended.code == 1
    assert ended.errors == [
        f"error: these results were begun on Abacus 1, this device is {began.capabilities.cpu}: {results}"
    ]


@pytest.mark.thorough
def test_results_go_to_another_folder(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]})
    (tmp_path / "out").mkdir()
    ended = run(python, bundle.path, "--folder", tmp_path / "out", "--cores", min(os.sched_getaffinity(0)))
    assert ended.code == 0, ended.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.results"]
    for options, message in (
        (("--folder", tmp_path / "none"), "no such file"),
        (("--cores", "99999"), "--cores must be"),
        (("--canary-tolerance", "nan"), "--canary-tolerance must be a share from 0.01 to 100: nan"),
    ):
        ended = run(python, bundle.path, *options)
        assert ended.code in (1, 2)
        assert message in ended.err.splitlines()[-1] or message in ended.errors[0]
        assert "Traceback" not in ended.err


@pytest.mark.thorough
def test_an_old_python_is_told_so(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]})
    newer = rewritten(
        bundle, tmp_path / "c.pyz", lambda name, data: data.replace(b"(3, 11)", b"(9, 0)") if "main" in name else data
    )
    ended = run(python, newer)
    assert ended.code == 1
    assert ended.err.startswith("error: this needs Python 9.0 or newer: 3.")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.thorough
def test_the_program_runs_a_bundle_as_its_own_python_does(kernels: Kernels, tmp_path: Path) -> None:
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]})
    ended = int8tune("bundle", "run", bundle.path, *AT_ANY_SPEED)
    assert ended.code == 0, ended.err
    assert set(replies(bundle)) == {"one"}


@pytest.mark.thorough
def test_a_device_that_is_not_well_is_not_believed(kernels: Kernels, python: Path, tmp_path: Path) -> None:
    """Its canary is wrong: nothing is recorded, and it is said why."""
    bundle = pack(tmp_path / "b.pyz", kernels, {"one": ["good"]}, canary="wrong_value")
    with (tmp_path / "said").open("wb") as said:
        process = start(python, bundle.path, stderr=said)
        wait_until(lambda: "the device is quarantined" in (tmp_path / "said").read_text(), 40.0)
        process.terminate()
        process.communicate(timeout=10)
    assert "the device is quarantined: the canary's values were wrong\n" in (tmp_path / "said").read_text()
    assert replies(bundle) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("speed", [(), ("--canary-tolerance", "0.3")])
def test_how_slow_a_canary_may_be_is_said(
    kernels: Kernels, python: Path, tmp_path: Path, speed: tuple[str, ...]
) -> None:
    """Its time grows while another kernel hangs."""
    items = {"hang": ["hangs"], "good": ["good"]}
    bundle = pack(tmp_path / "b.pyz", kernels, items, canary="slower_each_second", run_limit_s=2.0)
    with (tmp_path / "said").open("wb") as said:
        process = start(python, bundle.path, stderr=said, speed=speed)
        wait_until(lambda: "the device is quarantined: the canary took" in (tmp_path / "said").read_text(), 40.0)
        process.terminate()
        process.communicate(timeout=10)
    assert replies(bundle) == {}
    assert run(python, bundle.path).code == 0
    assert set(replies(bundle)) == {"hang", "good"}


@pytest.mark.thorough
@pytest.mark.skipif(bool(why_no_a53()), reason=why_no_a53() or "there is one")
def test_an_emulated_cortex_a53_verifies_a_bundle(python: Path, tmp_path: Path) -> None:
    (tmp_path / "arm").mkdir()
    kernels = build_kernels(tmp_path / "arm", CROSS_COMPILER)
    items = {"good": ["good"], "wrong": ["skips_last"], "crash": ["segfault"]}
    bundle = pack(tmp_path / "b.pyz", kernels, items, architecture="aarch64", needs=("asimd",), run_limit_s=20.0)
    ended = run(python, bundle.path, "--emulator", " ".join(A53))
    assert ended.code == 0, ended.err
    found = {item: reply["outcome"] for item, (reply,) in replies(bundle).items()}
    assert found == {"good": "ok", "wrong": "wrong_answer", "crash": "run_failed"}
    began = next(line for _, line in read_lines(tmp_path / "b.results") if isinstance(line, Began))
    assert began.capabilities.environment["timing"] == "none"
    assert began.capabilities.architecture == "aarch64"
