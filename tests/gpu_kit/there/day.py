"""A step of the day on the machine with the GPU: `python3 -u PIECE/day.py STEP`, results under $OUT.

What a step needs is joined from the pieces that were sent with this command or an earlier one, checked by its sha256
and unpacked, once, into a folder that lives as long as the machine is held. Commands of a step follow each other, each
with a limit; none needs another's success, and what there is of results is in $OUT after each.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, cast

HERE = Path(__file__).resolve().parent
KEPT = Path(os.environ.get("INT8TUNE_DAY", "/tmp/int8tune-day"))
# Python before 3.11.4 knows no filters; whose members these are, their digests say.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
MOST_FILES, MOST_FILE_BYTES = 8, 16 << 20
# How long a command has to end by itself once it was asked to.
GRACE_S = 15.0
COLLECT_EVERY_S = 20.0
# Where a container's driver may be mounted.
DRIVER = Path("/usr/local/nvidia/lib64/libcuda.so.1")
HOLD_LIMIT_S = 60.0


def main(arguments: list[str]) -> int:
    step, begun = int(arguments[0]), time.monotonic()
    out = Path(os.environ.get("OUT", "out"))
    out.mkdir(parents=True, exist_ok=True)
    plan = json.loads((HERE / "plan.json").read_text())
    limit_s = float(os.environ.get("INT8TUNE_LIMIT_S", plan["limits_s"][str(step)]))
    with (out / f"step-{step}.log").open("w") as log:
        missing = prepare(step, log)
        if missing:
            tell(log, f"error: step {step} needs pieces that are not here: {', '.join(map(str, sorted(missing)))}; "
                 "send each by `python3 PIECE/day.py 0`, then repeat this")  # fmt: skip
            return 2
        if step == 0:
            return 0
        make_driver_known(log)
        holder = hold(log)
        failed = 0
        for command in plan["steps"][str(step)]:
            left_s = limit_s - (time.monotonic() - begun) - GRACE_S
            failed += run(command, left_s, out, log)
            collect(out)
        tell(log, f"step {step}: {failed} of {len(plan['steps'][str(step)])} commands failed, "
             f"{time.monotonic() - begun:.0f} s")  # fmt: skip
        if holder:
            kill(holder)
    return min(failed, 1)


def make_driver_known(log: Any) -> None:
    """Let the loader find a driver that was put where it does not look: the agent has no other way to it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        if DRIVER.exists():
            code = subprocess.run(["ldconfig", str(DRIVER.parent)], timeout=30, check=False).returncode
            tell(log, f"ldconfig {DRIVER.parent}: ended with {code}")


def hold(log: Any) -> subprocess.Popen[str] | None:
    """A process that keeps the driver at work during the step; it ends with this one."""
    program = HERE / "cuda_driver.py"
    if not program.exists():
        return None
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(lambda: process.stdout.readline() if process.stdout else "")
        try:
            said = reading.result(HOLD_LIMIT_S).strip()
        except TimeoutError:
            kill(process)
            said = "no context is held: the driver does not answer"
    tell(log, f"{said}, {time.monotonic() - begun:.1f} s")
    return process


def tell(log: Any, text: str) -> None:
    print(text, flush=True)
    print(text, file=log, flush=True)


def tell_all(log: Any, lines: Iterable[str]) -> None:
    for line in lines:
        tell(log, line.rstrip("\n"))


def prepare(step: int, log: Any) -> set[int]:
    """Keep this command's parts, unpack what is whole; the pieces that the step lacks."""
    begun = time.monotonic()
    table = json.loads((HERE / "kit.json").read_text())
    parts = KEPT / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for part in (part for archive in table.values() for part in archive["parts"]):
        sent, kept = HERE / part["name"], parts / part["name"]
        if sent.exists() and not kept.exists():
            require_sha256(sent, part["sha256"])
            shutil.copyfile(sent, f"{kept}.partial")
            Path(f"{kept}.partial").replace(kept)
    tell(log, f"kept the parts of this piece, {time.monotonic() - begun:.1f} s")
    here = {name: all((parts / part["name"]).exists() for part in one["parts"]) for name, one in table.items()}
    with ThreadPoolExecutor() as pool:
        for name, took_s in pool.map(lambda name: unpack(name, table[name]), [name for name in table if here[name]]):
            tell(log, f"{name} is unpacked, {took_s:.1f} s")
    lacking = [one for name, one in table.items() if step in one["steps"] and not here[name]]
    return {part["piece"] for one in lacking for part in one["parts"] if not (parts / part["name"]).exists()}


def require_sha256(path: Path, expected: str) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != expected:
        raise SystemExit(f"error: {path.name} was damaged on its way: sha256 {digest}, not {expected}")


def unpack(name: str, archive: dict[str, Any]) -> tuple[str, float]:
    """Unpack an archive into the folder of all, once; its seconds."""
    begun, done = time.monotonic(), KEPT / f"{name}.{archive['sha256'][:16]}"
    if not done.exists():
        paths = [KEPT / "parts" / part["name"] for part in archive["parts"]]
        with Joined(paths) as stream, tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|xz") as members:
            for member in members:
                # `tarfile` fails where another archive, unpacked at the same time, makes the same folder.
                (KEPT / "all" / member.name).parent.mkdir(parents=True, exist_ok=True)
                members.extract(member, KEPT / "all", **SAFELY)
        done.touch()
    return name, time.monotonic() - begun


class Joined:
    """The content of files, one after the other."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._file: Any = None

    def __enter__(self) -> Joined:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def read(self, count: int) -> bytes:
        while True:
            if self._file and (content := self._file.read(count)):
                return bytes(content)
            if not self._paths:
                return b""
            self.__exit__()
            self._file = self._paths.pop(0).open("rb")


def run(command: dict[str, Any], left_s: float, out: Path, log: Any) -> bool:
    """Run a command to its end or limit, its output to both; whether it failed."""
    limit_s = min(command["limit_s"], left_s)
    if limit_s < 5:
        tell(log, f"--- left out, there is no time: {command['name']}")
        return True
    words = [
        word.format(python=sys.executable, all=KEPT / "all", out=out.resolve(), here=HERE) for word in command["words"]
    ]
    if command.get("if_found") and not shutil.which(command["if_found"]):
        tell(log, f"--- left out, {command['if_found']} is not installed here: {command['name']}")
        return False
    tell(log, f"--- {command['name']}, at most {limit_s:.0f} s")
    begun = time.monotonic()
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        cwd=KEPT / "all", env=environment(), text=True, errors="replace",
    )  # fmt: skip
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(tell_all, log, process.stdout or ())
        code = wait(process, limit_s, out)
        kill(process)
        reading.result()
    how = "cut off at its limit" if code is None else f"ended with {code}"
    tell(log, f"--- {command['name']}: {how}, {time.monotonic() - begun:.0f} s")
    return code not in command.get("good_codes", [0])


def wait(process: subprocess.Popen[str], limit_s: float, out: Path) -> int | None:
    """Its exit status, None if it was cut off; meanwhile results are copied now and then."""
    deadline = time.monotonic() + limit_s
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            return process.wait(min(left_s, COLLECT_EVERY_S))
        except subprocess.TimeoutExpired:
            collect(out)
    end(process)
    return None


def end(process: subprocess.Popen[str]) -> None:
    """Ask it to end: a campaign writes its records and its best log down."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(GRACE_S - 3)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment() -> dict[str, str]:
    """Packages, caches and settings of the kit before those of the machine, which stay in reach."""
    packages = KEPT / "all" / "packages"
    paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "XDG_CACHE_HOME": str(KEPT / "all" / "cache"),
        "NO_COLOR": "1",
    }


def collect(out: Path) -> None:
    """Copy the results so far, those first that matter most: records, best logs, tables."""
    results = KEPT / "all" / "records"
    found = [
        path for pattern in ("*.db", "*.best.jsonl", "*.results", "*.json") for path in sorted(results.glob(pattern))
    ]
    there = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    for path in found:
        if path.stat().st_size <= MOST_FILE_BYTES and (path.name in there or len(there) < MOST_FILES):
            copy(path, out / path.name)
            there.add(path.name)


def copy(path: Path, to: Path) -> None:
    """Whole at any moment, records that are being written, too."""
    partial = to.with_name(f".{to.name}")
    if path.suffix == ".db":
        with (
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as records,
            closing(sqlite3.connect(partial)) as copied,
        ):
            records.backup(copied)
    else:
        shutil.copyfile(path, partial)
    partial.replace(to)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
