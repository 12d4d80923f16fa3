"""What a compiled model says of itself, as JSON: inputs and outputs, the CPU that it needs, what its calls compute."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

from int8tune.compiler.graph import Value
from int8tune.compiler.islands.island import exact_operators, float_operators
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.program import Call, Program
from int8tune.results.bounded_json import parse_json
from int8tune.schedules.target import PROFILES, Target

FORMAT = 1


@dataclass(frozen=True, slots=True)
class About:
    """What a compiled model says of itself.

    Attributes:
        needs: CPU features by the names that Linux gives them; empty for code of one CPU, whose name is in `target`.
        inputs, outputs: `name`, `shape`, `type`, and `scale` and `zero_point` where they are quantized.
        states: what is kept from run to run, as inputs.
        kernel: of a model that is one function, the name of what calls it with arguments at given addresses: inputs,
            constants, outputs, memory; empty for others, and where an older version made it.
        memory_bytes: of that memory, for what is between its calls.
        calls: `layers`, `computes`, `schedule`, `kernel`, `output` and `float`, in the order in which they run.
        exact: how many operators integer kernels compute, bit for bit.
        floats: how many of each operator are computed in float.
        int8_share: of the multiply-adds, that of int8 layers; None where there are none, or an older version made it.
        sizes: the same for inputs of other shapes, where the model was compiled for several.
    """

    model: str
    target: str
    threads: int
    needs: tuple[str, ...]
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    calls: tuple[dict[str, Any], ...]
    exact: int = 0
    floats: Mapping[str, int] = field(default_factory=dict)
    int8_share: float | None = None
    sizes: tuple[About, ...] = ()
    states: tuple[dict[str, Any], ...] = ()
    kernel: str = ""
    memory_bytes: int = 0


def about_text(programs: Sequence[Program], target: Target, kernels: Mapping[int, tuple[str, int]]) -> str:
    """The text that a compiled model carries, of its programs for inputs of several shapes.

    Args:
        kernels: of programs that are one function, by their numbers: its name, and the bytes of its memory.
    """
    first, *others = [_program(program, *kernels.get(index, ("", 0))) for index, program in enumerate(programs)]
    needs = next(profile.needs for profile in PROFILES if profile.name == target.profile)
    return json.dumps(
        {
            "int8tune_model": FORMAT,
            "made_by": f"int8tune {version('int8tune')}",
            "model": programs[0].graph.name,
            "target": target.name,
            "threads": target.threads,
            "needs": sorted(needs),
            **first,
            **({"sizes": others} if others else {}),
        }
    )


def _program(program: Program, kernel: str, memory_bytes: int) -> dict[str, Any]:
    graph = program.graph
    return {
        "inputs": [_form(graph.values[name]) for name in graph.inputs],
        "outputs": [_form(graph.values[name]) for name in graph.outputs],
        "states": [_form(graph.values[state.read]) | {"name": state.name} for state in graph.states],
        "calls": [_call(call) for call in program.calls],
        "exact": exact_operators(graph),
        "floats": float_operators(graph),
        "int8_share": int8_share(graph),
        "kernel": kernel,
        "memory_bytes": memory_bytes,
    }


def read_about(text: str) -> About:
    """What a compiled model says.

    Raises:
        ValueError: it is no such text, or one of another version.
    """
    found = parse_json(text)
    if not isinstance(found, dict) or found.get("int8tune_model") != FORMAT:
        raise ValueError("it is of another version")
    about = {name: found[name] for name in ("model", "target", "threads", "needs")}
    others = tuple(_read(about | each) for each in found.get("sizes", ()))
    return replace(_read(found), sizes=others)


def _read(found: dict[str, Any]) -> About:
    return About(
        model=found["model"],
        target=found["target"],
        threads=found["threads"],
        needs=tuple(found["needs"]),
        inputs=tuple(found["inputs"]),
        outputs=tuple(found["outputs"]),
        calls=tuple(found["calls"]),
        exact=found.get("exact", len(found["calls"])),
        floats=found.get("floats", {}),
        int8_share=found.get("int8_share"),
        states=tuple(found.get("states", ())),
        kernel=found.get("kernel", ""),
        memory_bytes=found.get("memory_bytes", 0),
    )


def _form(value: Value) -> dict[str, Any]:
    form: dict[str, Any] = {"name": value.name, "shape": list(value.shape), "type": value.type}
    if value.quantization is not None and not value.quantization.per_channel:
        form["scale"] = float(value.quantization.scale[0])
        form["zero_point"] = int(value.quantization.zero_point[0])
    return form


def _call(call: Call) -> dict[str, Any]:
    return {
        "layers": call.layers,
        "computes": call.computes,
        "schedule": call.schedule,
        "kernel": call.kernel,
        "output": call.outputs[0],
        "float": call.is_float,
    }
