"""Makes wrong kernels of right ones, one fault at one place, and runs them where they can do no harm.

A fault (`mutation_faults`) is an edit of a kernel's TIR, or of how its operands are laid out. Places whose edit can't
change an output are left out where they are known: a copy's bytes that nothing reads, a loop's turn that only repeats.
"""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import faulthandler
import itertools
import os
import resource
import select
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

from int8tune.schedules.operands import Operands
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Workload
from tests.support.kernels.kernels import compile_kernel

LIMIT_S = 20.0
# glibc fills what `malloc` gives with the complement of this byte: memory that nothing wrote is never right by chance.
M_PERTURB, JUNK = -6, 0x5A
# Characters of a line that are shown before and behind what was changed.
CONTEXT = 100

Cases = Sequence[tuple[str, Operands]]
Function = Any
Node = Any


@dataclass(frozen=True)
class Subject:
    """A right kernel."""

    workload: Workload
    target: Target
    kernel: Kernel

    @property
    def function(self) -> Function:
        return self.kernel.function

    @cached_property
    def used(self) -> list[tuple[int, Node]]:
        """The statements that outputs depend on, stores and values with a name, each with its place."""
        needed = {_key(param) for param in self.function.params if param.name == "out"}
        for node in nodes_in(self.function, (tirx.For, tirx.IfThenElse)):
            parts = (node.min, node.extent) if isinstance(node, tirx.For) else (node.condition,)
            needed.update(*map(_names_in, parts))
        open_ones = dict(enumerate(_found(self.function, _LEAVES)))
        used: dict[int, Node] = {}
        while found := {place: leaf for place, leaf in open_ones.items() if _target(leaf) in needed}:
            used |= found
            open_ones = {place: leaf for place, leaf in open_ones.items() if place not in found}
            for leaf in found.values():
                needed.update(_names_in(leaf.value), *map(_names_in, getattr(leaf, "indices", ())))
        return sorted(used.items())


@dataclass(frozen=True, slots=True)
class Expressions:
    """A fault of expressions; all equal ones of a statement change together, for they are one value in a source.

    Attributes:
        types: of the nodes that `variants` takes.
        variants: what a node may become.
    """

    types: tuple[type, ...]
    variants: Callable[[Node, Subject], Iterable[Node]]

    @property
    def name(self) -> str:
        return self.variants.__name__

    def mutants(self, subject: Subject) -> Iterator[Callable[[], Kernel]]:
        for place, statement in subject.used:
            for node in _distinct(statement, self.types):
                for variant in self.variants(node, subject):
                    change = partial(substituted, old=node, new=variant)
                    yield partial(_edited, subject.kernel, _LEAVES, place, change)


@dataclass(frozen=True, slots=True)
class Statements:
    """A fault of statements."""

    types: tuple[type, ...]
    variants: Callable[[Node, Subject], Iterable[Node]]

    @property
    def name(self) -> str:
        return self.variants.__name__

    def mutants(self, subject: Subject) -> Iterator[Callable[[], Kernel]]:
        for place, statement in enumerate(_found(subject.function, self.types)):
            for variant in self.variants(statement, subject):
                yield partial(_edited, subject.kernel, self.types, place, partial(_instead, variant))


@dataclass(frozen=True, slots=True)
class Layouts:
    """A fault of what the caller makes of a layer's operands."""

    variants: Callable[[Kernel], Iterable[Kernel]]

    @property
    def name(self) -> str:
        return self.variants.__name__

    def mutants(self, subject: Subject) -> Iterator[Callable[[], Kernel]]:
        for kernel in self.variants(subject.kernel):
            yield partial(replace, kernel)


Fault = Expressions | Statements | Layouts

_LEAVES = (tirx.BufferStore, tirx.Bind)


def subject_of(workload: Workload, target: Target, kernel: Kernel) -> Subject:
    """The kernel without TVM's blocks, whose regions repeat what the statements say."""
    if not nodes_in(kernel.function, (s_tir.SBlock,)):
        return Subject(workload, target, kernel)
    module = tvm.IRModule({"main": kernel.function})
    for step in (
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.LowerOpaqueBlock(),
    ):
        module = step(module)
    return Subject(workload, target, replace(kernel, function=module["main"]))


def has_place(subject: Subject, faults: Iterable[Fault]) -> bool:
    """Whether a kernel can have one of the faults."""
    return any(True for fault in faults for _ in fault.mutants(subject))


def mutate(subject: Subject, faults: Iterable[Fault], seed: int) -> Kernel | None:
    """The kernel with one of the faults at one of its places, or None where it has no place for any."""
    edit = drawn_edit(subject, faults, seed)
    return edit() if edit else None


def drawn_edit(subject: Subject, faults: Iterable[Fault], seed: int) -> Callable[[], Kernel] | None:
    """What makes the kernel of `mutate`."""
    rng = np.random.default_rng(seed)
    possible = [mutants for fault in faults if (mutants := list(fault.mutants(subject)))]
    if not possible:
        return None
    mutants = possible[rng.integers(len(possible))]
    return mutants[rng.integers(len(mutants))]


def replaced_by(edit: Callable[[], Kernel], make: Callable[[Node], Node]) -> Kernel:
    """The kernel with something else in the place of the expression that an edit is about."""
    assert isinstance(edit, partial)
    kernel, types, place, change = edit.args
    old = change.keywords["old"]
    return _edited(kernel, types, place, partial(substituted, old=old, new=make(old)))


def difference(subject: Subject, mutant: Kernel) -> str:
    """What was changed: the lines of the TIR that differ, cut to where they do."""
    if mutant.layout is not subject.kernel.layout:
        return f"layout: {mutant.layout}"
    before, after = (function.script().splitlines() for function in (subject.function, mutant.function))
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return "\n".join(
        _shortened("\n".join(before[a:b]), "\n".join(after[c:d])) for tag, a, b, c, d in changes if tag != "equal"
    )


def _shortened(before: str, after: str) -> str:
    same = _common(before, after)
    behind = _common(before[same:][::-1], after[same:][::-1])
    start = max(0, same - CONTEXT)
    cut = [text[start : max(same, len(text) - behind) + CONTEXT].strip() for text in (before, after)]
    return f"- ..{cut[0]}..\n+ ..{cut[1]}.."


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def verdict(subject: Subject, mutant: Kernel, limit_s: float = LIMIT_S, cases: Cases = ()) -> str:
    """What the adversarial suite, or other cases, say of a kernel: `right`, `wrong`, `crashed` or `hung`.

    Raises:
        RuntimeError: the kernel can't be compiled.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _judge(subject, mutant, writer, cases)
    os.close(writer)
    ended = os.pidfd_open(child)
    in_time = bool(select.select([ended], [], [], limit_s)[0])
    if not in_time:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ended)
    with os.fdopen(reader) as pipe:
        built, *said = pipe.read().split("\n", 1)
    if built != "built":
        raise RuntimeError(f"the mutant can't be compiled: {built}")
    return said[0] if said in (["right"], ["wrong"]) else "crashed" if in_time else "hung"


def _judge(subject: Subject, mutant: Kernel, writer: int, cases: Cases) -> NoReturn:
    """The child's whole life."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with contextlib.suppress(AttributeError):  # other C libraries have no such option
            ctypes.CDLL(None).mallopt(M_PERTURB, JUNK)
        built = compile_kernel(subject.workload, subject.target, mutant)
        os.write(writer, b"built\n")
        os.write(writer, b"wrong" if (built.wrong_of(cases) if cases else built.wrong_cases()) else b"right")
    except BaseException as error:
        os.write(writer, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def substituted(root: Node, old: Node, new: Node) -> Node:
    """All nodes in `root` that equal `old`, replaced."""
    return tvm_ffi.structural_map(root, (type(old), lambda node: new if tvm_ffi.structural_equal(node, old) else node))


def nodes_in(root: Node, types: tuple[type, ...]) -> list[Node]:
    """All nodes of the types, in the order of the text."""
    found: list[Node] = []

    def see(node: Node) -> None:
        found.append(node)

    tvm_ffi.structural_walk(root, (types, see), order="pre")
    return found


def _key(node: Node) -> Any:
    """What equal nodes have in common, to put them into sets."""
    make: Any = tvm_ffi.StructuralKey
    return make(node)


def _target(leaf: Node) -> Node:
    """The name of the buffer or of the value that a statement gives a value."""
    return _key(leaf.buffer if isinstance(leaf, tirx.BufferStore) else leaf.var)


def _names_in(node: Node) -> set[Node]:
    return set(map(_key, nodes_in(node, (tirx.Var,))))


def _found(function: Function, types: tuple[type, ...]) -> list[Node]:
    found: list[Node] = []

    def see(node: Node) -> None:
        found.append(node)

    tvm_ffi.structural_walk(function, (types, see))
    return found


def _edited(kernel: Kernel, types: tuple[type, ...], place: int, edit: Callable[[Node], Node]) -> Kernel:
    """The kernel with the statement at this place of `_found` edited; both go through it in the same order."""
    seen = itertools.count()
    function = tvm_ffi.structural_map(
        kernel.function, (types, lambda node: edit(node) if next(seen) == place else node)
    )
    return replace(kernel, function=function)


def _instead(variant: Node, _: Node) -> Node:
    return variant


def _distinct(statement: Node, types: tuple[type, ...]) -> list[Node]:
    return [key.key for key in dict.fromkeys(map(_key, nodes_in(statement, types)))]
