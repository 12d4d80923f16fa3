"""Estimated cycles: how often each piece of a kernel's code runs, and what llvm-mca says of it."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from int8tune.rpc.errors import EstimateError
from int8tune.rpc.mca import tools
from int8tune.rpc.mca.disassembly import Code, disassemble, parse_disassembly
from int8tune.rpc.mca.estimate import ENTRY_SYMBOL, block_counts, cycles_of_blocks, estimate_cycles
from int8tune.rpc.mca.walk import _Walker, walk
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.target import target_for
from int8tune.schedules.workload import parse_workload
from tests.support.kernels.kernels import compile_function
from tests.support.run.thinned import one_in

CPU = "cortex-a53"
LAYERS = (
    "conv2d-u8s8-1x9x11x24-k3x3x20-s1-p1-float.c-u8",
    "conv2d-s8s8-2x6x7x16-k1x3x24-s2-p0.1.0.1-g2-fixed.c-s8",
    "dense-u8s8-13x40-o24-float.c-u8",
    "dwconv2d-u8s8-2x9x13x24-k3x3x1-s2-p1-float.c-u8",
)


@pytest.fixture(autouse=True)
def fresh_tools() -> Iterator[None]:
    """Tools are looked for once in a process."""
    tools.tool.cache_clear()
    yield
    tools.tool.cache_clear()


def needs(name: str) -> None:
    try:
        tools.tool(name)
    except EstimateError as error:
        pytest.skip(str(error))


def code_of(text: str) -> Code:
    """A function `f`, written as llvm-objdump prints it."""
    lines = [line.strip() for line in text.strip().splitlines()]
    body = "\n".join(f"       {index * 4:x}:      \t{line}" for index, line in enumerate(lines))
    return parse_disassembly(f"0000000000000000 <f>:\n{body}\n")


def counts(text: str) -> dict[int, int]:
    """How often the blocks of a function `f` run."""
    return block_counts(code_of(text), "f", limit_s=10)


# Code, and how often its blocks run.
CODE = {
    "a loop that counts down": ("movz x0, #1000; subs x0, x0, #1; b.ne 0x4 <f>; ret", {0: 1, 4: 1000, 12: 1}),
    "a loop in a loop": (
        "movz w8, #0; movz w9, #0; add w9, w9, #1; subs wzr, w9, #70; b.lo 0x8 <f>; add w8, w8, #1; "
        "subs wzr, w8, #100; b.ne 0x4 <f>; ret",
        {0: 1, 4: 100, 8: 7000, 20: 100, 32: 1},
    ),
    "turns that grow": (
        "movz x8, #1; orr x9, xzr, x8; subs x9, x9, #1; b.ne 0x8 <f>; add x8, x8, #1; subs xzr, x8, #51; "
        "b.ne 0x4 <f>; ret",
        {0: 1, 4: 50, 8: 1275, 16: 50, 28: 1},
    ),
    "a way that changes halfway": (
        "movz x8, #0; subs xzr, x8, #300; b.lt 0x10 <f>; add x9, x9, #1; add x8, x8, #1; subs xzr, x8, #1000; "
        "b.ne 0x4 <f>; ret",
        {0: 1, 4: 1000, 12: 700, 16: 1000, 28: 1},
    ),
    "a bound that is the lesser of two": (
        "movz x8, #0; movz x10, #40; sub x9, x10, x8; subs xzr, x9, #7; csel x9, x9, xzr, lt; subs xzr, x9, #0; "
        "csinc x9, x9, xzr, ne; add x9, x9, #3; subs x9, x9, #1; b.ne 0x20 <f>; add x8, x8, #1; subs xzr, x8, #40; "
        "b.ne 0x4 <f>; ret",
        {0: 1, 4: 40, 32: 34 * 4 + sum(range(4, 10)), 40: 40, 52: 1},
    ),
    "numbers on the stack": (
        "sub sp, sp, #16; movz x8, #600; str x8, [sp, #8]; ldr x9, [sp, #8]; sub x9, x9, #2; str x9, [sp, #8]; "
        "cbnz x9, 0xc <f>; add sp, sp, #16; ret",
        {0: 1, 12: 300, 28: 1},
    ),
    "a pointer that is compared": (
        "ldr x8, [x0, #16]; add x9, x8, #0x640; ldr q0, [x8], #16; subs xzr, x8, x9; b.ne 0x8 <f>; ret",
        {0: 1, 8: 100, 20: 1},
    ),
    "a function": (
        "movz x8, #3; bl 0x14 <g>; subs x8, x8, #1; b.ne 0x4 <f>; b 0x18 <h>; ret; ret",
        {0: 1, 4: 3, 20: 3},
    ),
    "a bit that is tested": (
        "movz x8, #0; movz x9, #0; add w9, w9, #1; tbz w9, #5, 0x8 <f>; add x8, x8, #1; subs xzr, x8, #20; "
        "b.ne 0x4 <f>; ret",
        {0: 1, 4: 20, 8: 640, 16: 20, 28: 1},
    ),
    "a negative number that grows to zero": (
        "mov x8, #-5520; add x8, x8, #2; cbnz x8, 0x4 <f>; ret",
        {0: 1, 4: 2760, 12: 1},
    ),
    "divisions": (
        "movz x8, #0; movz x9, #10; udiv x10, x8, x9; cbz x10, 0x14 <f>; add x11, x11, #1; add x8, x8, #1; "
        "subs xzr, x8, #100; b.ne 0x8 <f>; ret",
        {0: 1, 8: 100, 16: 90, 20: 100, 32: 1},
    ),
}


@pytest.mark.parametrize("name", CODE)
def test_blocks_are_counted(name: str) -> None:
    text, expected = CODE[name]
    found = counts(text.replace("; ", "\n"))
    assert {block: found[block] for block in expected} == expected


def test_code_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("int8tune.rpc.mca.walk.MAX_BLOCKS", 5000)
    for text in ("b 0x0 <f>", "movz x0, #0\nadd x0, x0, #1\nb 0x4 <f>"):
        with pytest.raises(EstimateError, match="does not end"):
            counts(text)
    with pytest.raises(EstimateError, match="too long to follow"):
        counts("movz x0, #3\nmadd x0, x0, x0, x0\nb 0x4 <f>")


@pytest.mark.parametrize("text", ["add x0, x0, #1", "b.eq 0x1000 <f>\nret", "cbz xzr, 0x2 <f>\nret", "b.eq\nret"])
def test_code_that_is_left_is_an_error(text: str) -> None:
    with pytest.raises(EstimateError, match="goes to where no instruction is"):
        counts(text)


@pytest.mark.parametrize("text", ["", "file format elf64-littleaarch64\n", "\x00\xff" * 100, "   zz:  add x0"])
def test_text_without_code_is_an_error(text: str) -> None:
    with pytest.raises(EstimateError, match="no code"):
        parse_disassembly(text)


def test_too_much_code_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("int8tune.rpc.mca.disassembly.MAX_INSTRUCTIONS", 10)
    with pytest.raises(EstimateError, match="more than 10 instructions"):
        counts("\n".join(["add x0, x0, #1"] * 11))


def compiled(key: str, folder: Path, profile: str = "arm-neon", template: str = "", **knobs: Any) -> tuple[Path, Any]:
    """The object of a layer's kernel, and its form."""
    workload, target = parse_workload(key), target_for({"asimd", "asimddp"}, CPU, "aarch64-linux-gnu", profile)
    chosen = template_named(template) if template else template_for(workload, target)
    kernel = chosen.apply(workload, target, {**chosen.space(workload, target).default, **knobs})
    path = folder / "kernel.o"
    compile_function(kernel.function, target).mod.write_to_file(str(path))
    return path, kernel.layout


@pytest.mark.parametrize("key", LAYERS)
def test_turns_that_are_skipped_are_those_that_would_be_walked(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("llvm-objdump")
    code = disassemble(compiled(key, tmp_path)[0], 60)
    skipped = walk(code, code.symbols[ENTRY_SYMBOL], 60)
    monkeypatch.setattr(_Walker, "_turn", lambda *_: None)
    walked = walk(code, code.symbols[ENTRY_SYMBOL], 60)
    assert skipped.edges == walked.edges
    assert skipped.calls == walked.calls


@pytest.mark.parametrize(("products", "columns", "channels"), [("c2", 4, 8), ("wide", 2, 16)])
def test_as_many_products_run_as_the_tiles_have(products: str, columns: int, channels: int, tmp_path: Path) -> None:
    needs("llvm-objdump")
    path, form = compiled(LAYERS[0], tmp_path, products=products, tile_columns=columns, tile_channels=channels)
    taps = 3 * (72 if products == "wide" else form.words * form.taps)
    assert products_of(path) == 9 * math.ceil(11 / columns) * math.ceil(20 / channels) * columns * channels * taps


@pytest.mark.parametrize(("unroll", "channels"), one_in(3, [(12, 32), (9, 32), (1, 32)]))
def test_as_many_products_run_as_blocks_have(unroll: int, channels: int, tmp_path: Path) -> None:
    """And those that each tile begins in vain: of 8 values, four first halves and two second ones."""
    needs("llvm-objdump")
    knobs = {"products": "c8", "tile_columns": 3, "tile_channels": 8, "unroll": unroll}
    path, _ = compiled(LAYERS[0], tmp_path, **knobs)
    tiles = 9 * math.ceil(11 / 3) * math.ceil(20 / 8)
    assert products_of(path) == 9 * 11 * 24 * 9 * channels + tiles * 6 * 8


def products_of(path: Path) -> int:
    """Products that a kernel executes."""
    code = disassemble(path, 60)
    walked = walk(code, code.symbols[ENTRY_SYMBOL], 60)
    found = 0
    for (_, block), count in walked.edges.items():
        names = [(part.mnemonic, part.operands) for part in walked.blocks[block].instructions]
        found += count * sum(
            8 if ".8h" in rest.split(",")[0] else 4 for name, rest in names if re.match("smu?[lm]a?l", name)
        )
    return found


def test_each_turn_of_a_loop_costs_what_its_chain_of_products_takes() -> None:
    needs("llvm-mca")
    turns = "movz x0, #1000; mul x1, x1, x2; mul x1, x1, x2; subs x0, x0, #1; b.ne 0x4 <f>; ret"
    cycles = cycles_of_blocks(walk(code_of(turns.replace("; ", "\n")), 0, 10), CPU, 60)
    assert 3 * 2 * 1000 < cycles[4] <= 4 * 2 * 1000  # a product of 64 bits takes three or four


@pytest.mark.thorough
def test_cycles_are_those_of_an_issue_a_cycle_at_least(tmp_path: Path) -> None:
    needs("llvm-mca")
    key = "conv2d-s8s8-1x14x14x64-k3x3x32-s1-p1-float.c-s8"
    macs = parse_workload(key).macs
    own = estimate_cycles(compiled(key, tmp_path)[0], CPU)
    plain = estimate_cycles(compiled(key, tmp_path, "generic", "generic.direct")[0], CPU)
    dot = estimate_cycles(
        compiled(key, tmp_path, "arm-dotprod", products="dot", tile_columns=4, tile_channels=16)[0], CPU
    )
    assert macs / (16 / 3) < own.cycles < plain.cycles / 1.8
    assert macs / 16 < dot.cycles < own.cycles
    assert 2 <= own.outside_calls < 40
    assert own.instructions > own.cycles / 2


def test_a_library_without_the_function_is_an_error(tmp_path: Path) -> None:
    needs("llvm-objdump")
    with pytest.raises(EstimateError, match="no function `other`"):
        estimate_cycles(compiled(LAYERS[2], tmp_path)[0], CPU, symbol="other")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(EstimateError, match="ended with"):
        estimate_cycles(tmp_path / "text.so", CPU)


def test_an_unknown_core_is_an_error(tmp_path: Path) -> None:
    needs("llvm-mca")
    with pytest.raises(EstimateError):
        estimate_cycles(compiled(LAYERS[2], tmp_path)[0], "no-such-core")


@pytest.fixture
def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A script in place of a tool; nothing else can be found."""
    folder, objdump = tmp_path / "bin", shutil.which("llvm-objdump")
    folder.mkdir()
    if objdump:
        (folder / "llvm-objdump").symlink_to(objdump)
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


VERSION = 'case "$1" in --version) echo "Debian LLVM version 19.1.7"; exit;; esac'


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "message"),
    one_in(
        4,
        [
            (None, "`llvm-mca` is not installed: estimates need LLVM 14 or newer"),
            ("echo 'LLVM version 11.0.1'", "is of LLVM 11: estimates need LLVM 14 or newer"),
            ("exit 3", "ended with 3: no message"),
            (f"{VERSION}; exec /bin/sleep 60", "took over 1 s"),
            (f"{VERSION}; echo nothing", "printed nothing about"),
            (f"{VERSION}; printf '[0] Code Region - 0\\n\\nTotal Cycles: x\\n'", "no number of cycles"),
            (f"{VERSION}; printf '[0] Code Region - 0\\n\\nTotal Cycles:      99999999999999\\n'", "one that can't be"),
            (f"{VERSION}; echo 'unknown core' >&2; exit 1", "ended with 1: unknown core"),
        ],
    ),
)
def test_a_tool_that_fails_is_an_error(
    script: str | None, message: str, fake_tool: Callable[[str, str], None], tmp_path: Path
) -> None:
    needs("llvm-objdump")
    path, _ = compiled(LAYERS[2], tmp_path)
    if script:
        fake_tool("llvm-mca", script)
    with pytest.raises(EstimateError, match=re.escape(message)):
        estimate_cycles(path, CPU, limit_s=1)
