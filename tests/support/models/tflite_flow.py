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
