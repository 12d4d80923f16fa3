"""TFLite models with loops, whose counters are constants at first."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.models.tflite_models import Array, Writer, litert

SHAPE = (2, 3)
FORM = ("s8", SHAPE, 0.25, -3)


def joined(w: Writer, word: str, one: int, other: int, name: str, form: Any = FORM) -> int:
    made = w.tensor(name, *form)
    w.operator(word, [one, other], [made], word.title(), 2 if form[0] == "s8" else 1)
    return made


def while_loop(w: Writer, data: int, turns: int, start: int = 2) -> tuple[Any, ...]:
    """What a value is after some turns, which add it to itself and a counter to another value; and the subgraphs."""
    condition, body = w.other(), w.other()
    for graph in (condition, body):
        graph.input("counter", "s32", ())
        graph.input("most", "s32", ())
        graph.input("a", *FORM)
    answer = condition.tensor("answer", "bool", ())
    condition.operator("LESS", condition.inputs[:2], [answer], "Less", 1)
    condition.outputs = [answer]
    counter, most, value = body.inputs
    step = joined(body, "ADD", counter, body.constant("one", "s32", 1), "step", ("s32", ()))
    table = body.constant("rows", "s8", np.arange(-18, 18).reshape(12, 3), *FORM[2:])
    row = body.tensor("row", "s8", (3,), *FORM[2:])
    body.operator("GATHER", [table, counter], [row], "Gather", 1, axis=0)
    total = joined(body, "ADD", value, row, "total")
    body.outputs = [step, most, joined(body, "SUB", total, value, "rest") if turns > 12 else total]
    ends = [w.constant("start", "s32", start), w.constant("end", "s32", start + turns), data]
    made = [w.tensor("steps", "s32", ()), w.tensor("limit", "s32", ()), w.tensor("y", *FORM)]
    w.operator("WHILE", ends, made, "While", 1, condSubgraphIndex=1, bodySubgraphIndex=2)
    return made[2], condition, body


def file_with_loop(turns: int = 7) -> bytes:
    """A loop, what is computed of what it makes, and its last value as it is."""
    w = Writer()
    made, *others = while_loop(w, w.input("x", *FORM), turns)
    number = w.tensor("number", "f32", SHAPE)
    w.operator("DEQUANTIZE", [made], [number])
    curve = w.tensor("curve", "f32", SHAPE)
    w.operator("LOG_SOFTMAX", [number], [curve], "LogSoftmax", 1)
    return w.model(made, joined(w, "MUL", made, made, "square"), curve, others=others)


def file_with_list(rows: int = 4) -> bytes:
    """A loop that sets each row of a list, as converters write TensorListSetItem: rows before, the row, the rest."""
    w = Writer()
    condition, body, form = w.other(), w.other(), ("s8", (rows, 3), *FORM[2:])
    for graph in (condition, body):
        graph.input("counter", "s32", ())
        graph.input("list", *form)
        graph.input("a", *form)
    answer = condition.tensor("answer", "bool", ())
    condition.operator("LESS", [condition.inputs[0], condition.constant("end", "s32", rows)], [answer], "Less", 1)
    condition.outputs = [answer]
    counter, kept, data = body.inputs
    step = joined(body, "ADD", counter, body.constant("one", "s32", 1), "step", ("s32", ()))
    row = body.tensor("row", "s8", (1, 3), *FORM[2:])
    places = {name: body.tensor(f"place {name}", "s32", (2,)) for name in ("now", "next")}
    for number, (name, place) in zip((counter, step), places.items(), strict=True):
        flat = body.tensor(f"flat {name}", "s32", (1,))
        body.operator("RESHAPE", [number, body.constant(f"shape {name}", "s32", [1])], [flat], "Reshape", 1)
        rest = body.constant(f"rest {name}", "s32", [-1 if name == "now" else 0])
        body.operator("CONCATENATION", [flat, rest], [place], "Concatenation", 1, axis=0)
    zeros, ends = body.constant("zeros", "s32", [0, 0]), body.constant("ends", "s32", [-1, -1])
    parts = [body.tensor(f"rows {name}", "s8", (1, 3), *FORM[2:]) for name in ("before", "behind")]
    for part in parts:
        body.tensors[part].shapeSignature = [-1, 3]
    body.operator("SLICE", [kept, zeros, places["now"]], [parts[0]], "Slice", 1)
    body.operator("SLICE", [kept, places["next"], ends], [parts[1]], "Slice", 1)
    body.operator("GATHER", [data, counter], [gathered := body.tensor("gathered", "s8", (3,), *FORM[2:])], "Gather", 1)
    body.operator("RESHAPE", [gathered, body.constant("row shape", "s32", [1, 3])], [row], "Reshape", 1)
    doubled = joined(body, "ADD", row, row, "doubled", ("s8", (1, 3), *FORM[2:]))
    made = body.tensor("made", *form)
    body.operator("CONCATENATION", [parts[0], doubled, parts[1]], [made], "Concatenation", 2, axis=0)
    body.outputs = [step, made, data]
    first = w.constant("first", "s8", np.zeros((rows, 3)), *FORM[2:])
    taken = [w.constant("start", "s32", 0), first, w.input("x", *form)]
    outputs = [w.tensor("steps", "s32", ()), w.tensor("y", *form), w.tensor("same", *form)]
    w.operator("WHILE", taken, outputs, "While", 1, condSubgraphIndex=1, bodySubgraphIndex=2)
    return w.model(outputs[1], others=[condition, body])


def made_by_litert(file: bytes, feed: dict[str, Array]) -> dict[str, Array]:
    """The outputs of LiteRT's reference kernels; what other subgraphs have can't be read."""
    interpreter = litert.Interpreter(
        model_content=file, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for form in interpreter.get_input_details():
        interpreter.set_tensor(form["index"], feed[form["name"]])
    interpreter.invoke()
    return {each["name"]: interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()}
