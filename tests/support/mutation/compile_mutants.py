"""`int8tune compile` on damaged copies of a model file, each in a child.

    python -m tests.support.mutation.compile_mutants FILE COUNT SEED [KEEP]

Half of the copies of an ONNX file have other bytes, half another node, attribute, constant or name. Prints JSON: how
many children ended with which exit code, and the faults. A fault is an end other than with a library, or with one line
that says what is wrong and one that says what to do. The folder KEEP gets the mutants with faults.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from int8tune.tuner.cli.program import run
from tests.support.mutation.onnx_changes import changed

LIMIT_S, MEMORY = 20.0, 8 << 30
# What is wrong, a line for each kind of operator that can't be compiled, and what to do.
MOST_LINES = 20
# What bytes become: sizes and codes are small numbers, so are most of those that pass for others.
VALUES = (0, 1, 2, 3, 4, 8, 16, 127, 128, 255)
END = 2000


def main() -> None:
    file, count, seed, *keep = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *map(Path, sys.argv[4:])
    whole, draw = file.read_bytes(), random.Random(seed)
    codes: Counter[int] = Counter()
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if _compile(file, folder) != 0:  # in this process: children find all imported
            sys.exit("the whole file can't be compiled")
        for index in range(count):
            mutant = folder / f"mutant{file.suffix}"
            is_node = file.suffix == ".onnx" and draw.random() < 0.5
            mutant.write_bytes(changed(whole, draw) if is_node else mutated(whole, draw))
            code, fault = _compiled_in_child(mutant, folder)
            codes[code] += 1
            if fault:
                faults.append(f"mutant {index}: {fault}")
                for kept in keep:
                    shutil.copy(mutant, kept / f"{file.stem}-{seed}-{index}{file.suffix}")
    print(json.dumps({"codes": codes, "faults": faults}))


def mutated(whole: bytes, draw: random.Random) -> bytes:
    """A copy with a few other bytes, some cut off at its end, or a few that stand in it twice."""
    mutant = bytearray(whole)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        place = _place(mutant, draw)
        near = (mutant[place] + draw.choice([-1, 1])) % 256
        mutant[place] = draw.choice([*VALUES, *4 * [near], draw.randrange(256)])
    if draw.random() < 0.1:
        del mutant[draw.randrange(len(mutant)) :]
    if draw.random() < 0.1:
        start, length = draw.randrange(len(mutant) + 1), draw.randrange(40)
        mutant[start:start] = mutant[start : start + length]
    return bytes(mutant)


def _place(mutant: bytearray, draw: random.Random) -> int:
    """Tables stand at a file's ends, weights between them; most of a table is names, which are refused at once."""
    place = 0
    for _ in range(4):
        end = draw.randrange(min(END, len(mutant)))
        place = draw.choice([draw.randrange(len(mutant)), end, len(mutant) - 1 - end])
        if not chr(mutant[place]).isalpha():
            break
    return place


def _compile(file: Path, folder: Path) -> int:
    return run(["compile", str(file), "-o", str(folder / "model.so"), "--results", str(folder / "results")])


def _compiled_in_child(mutant: Path, folder: Path) -> tuple[int, str]:
    """The exit code, or the signal that ended the child as a negative number; and the fault, if it is one."""
    said = folder / "said"
    child = os.fork()
    if child == 0:
        _become_quiet(said)
        os._exit(_compile(mutant, folder))
    code = _wait(child)
    if code is None:
        return -signal.SIGKILL, f"over {LIMIT_S:g} s"
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
    left = {path.name for path in folder.iterdir()} - {"model.so", mutant.name, "said"}
    clear = code == 0 or (
        code == 1
        and 2 <= len(lines) <= MOST_LINES
        and lines[0].startswith("error: mutant: ")
        and all(line.startswith("error: ") for line in lines[:-1])
        and lines[-1].startswith("hint: ")
        and all(line.isprintable() and len(line) < 500 for line in lines)
    )
    return code, "" if clear and not left else f"ended with {code}, left {sorted(left)}, said {lines[-3:]}"


def _become_quiet(said: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _wait(child: int) -> int | None:
    """How a child ended; None if it had to be killed."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()
