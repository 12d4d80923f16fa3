"""Variables of TFLite files: what a model keeps from one run for the next.

A run reads variables and sets them, in the order of its operators; CALL_ONCE sets them before the first run, by another
subgraph. Sources: kernels/var_handle.cc, read_variable.cc, assign_variable.cc and call_once.cc of TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, State, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import Array, is_same_quantization
from int8tune.compiler.tflite_reader.file import Operators, Subgraph, TfliteFile
from int8tune.results.text import clipped, printable

WORDS = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")

Values = MutableMapping[str, Value]


@dataclass(slots=True, eq=False)
class _Variable:
    """A variable of the first subgraph.

    Attributes:
        read: the value that it is when a run begins; None where nothing sets it before the first one.
        now: the value that it is behind the operators that were read last.
        is_read: whether an operator reads what the run before left.
    """

    initial: Array | None = None
    read: Value | None = None
    now: Value | None = None
    is_read: bool = False


class States:
    """Reads the operators of variables, one after the other; `values` grows by what variables are at first."""

    def __init__(self, file: TfliteFile, graph: Operators) -> None:
        self._file, self._graph, self._values = file, graph, graph.values
        self._keys: dict[str, str] = {}
        self._variables: dict[str, _Variable] = {}
        self._is_used = False
        self._others: list[State] = []

    def keep(self, state: State) -> None:
        """Keep what an operator has that is no variable of these operators."""
        self._others.append(state)

    def read(self, plain: Operator, operator: Any) -> tuple[Operator, ...]:
        """What computes an operator: nothing, or a copy that costs nothing."""
        match plain.operator:
            case "VAR_HANDLE":
                self._keys[plain.outputs[0]] = self._key(operator)
                return ()
            case "CALL_ONCE":
                return self._call_once(plain, operator)
            case "READ_VARIABLE":
                return self._read(plain)
        return self._assign(plain)

    def states(self) -> tuple[State, ...]:
        """What is kept, of which each that is read is set before."""
        found = [*self._others]
        for key, variable in self._variables.items():
            if variable.is_read and variable.read is not None and variable.now is not None:
                assert variable.initial is not None
                if variable.now is variable.read:
                    self._values[variable.read.name] = replace(variable.read, constant=variable.initial)
                else:
                    found.append(State(key, variable.read.name, variable.now.name, variable.initial))
        return tuple(found)

    def _read(self, plain: Operator) -> tuple[Operator, ...]:
        variable, output = self._variable(plain), self._values.get(plain.outputs[0])
        alone = replace(plain, inputs=())  # a variable is no value
        if isinstance(variable, str) or output is None:
            raise self._file.place(plain, variable if isinstance(variable, str) else "it must make a value")
        self._is_used = True
        if variable.now is None:
            return (other(alone, "nothing sets its variable before it is read"),)
        if not is_same_form(variable.now, output):
            return (other(alone, f"its variable has another form: {variable.now.type}{list(variable.now.shape)}"),)
        variable.is_read |= variable.now is variable.read
        copied = replace(plain, kind=Kind.RESHAPE, inputs=(variable.now.name,), outputs=plain.outputs[:1])
        return (checked(copied, self._values),)

    def _assign(self, plain: Operator) -> tuple[Operator, ...]:
        variable = self._variable(plain)
        if isinstance(variable, str):
            raise self._file.place(plain, variable)
        value = self._values.get(plain.inputs[1]) if len(plain.inputs) == 2 else None
        if value is None:
            raise self._file.place(plain, "it must have a variable and a value")
        self._is_used = True
        if variable.read is not None and not is_same_form(variable.read, value):
            raise self._file.place(plain, f"its variable has another form: {value.type}{list(value.shape)}")
        variable.now = value
        return ()

    def _variable(self, plain: Operator) -> _Variable | str:
        key = self._keys.get(plain.inputs[0]) if plain.inputs else None
        if key is None:
            return "it must have the variable of a VAR_HANDLE before it"
        return self._variables.setdefault(key, _Variable())

    def _call_once(self, plain: Operator, operator: Any) -> tuple[Operator, ...]:
        """Set variables by a subgraph of constants."""
        index = self._file.options(operator, "CallOnceOptions").InitSubgraphIndex()
        if not 0 < index < self._file.model.SubgraphsLength():
            raise self._file.place(plain, f"it must run another subgraph: {index}")
        if self._is_used:
            raise self._file.place(plain, "variables are used before it sets them")
        graph, keys = Subgraph(self._file, index), dict[str, str]()
        for at, inner in enumerate(graph.plains):
            if inner.operator == "VAR_HANDLE":
                keys[inner.outputs[0]] = self._key(graph.operator(at))
                continue
            key, name = (keys.get((*inner.inputs, "")[0]), (*inner.inputs, "", "")[1])
            value = graph.values.get(name)
            if inner.operator != "ASSIGN_VARIABLE" or key is None or value is None or value.constant is None:
                raise self._file.place(plain, f"its subgraph must set variables to constants only: {inner.operator}")
            self._set(key, value, value.constant)
        return ()

    def _set(self, key: str, value: Value, initial: Array) -> None:
        name = free_name(f"{key}/state", self._values)
        read = self._values[name] = replace(value, name=name, constant=None)
        self._variables[key] = _Variable(initial, read, read)

    def _key(self, operator: Any) -> str:
        """What a variable is called in all subgraphs."""
        options = self._file.options(operator, "VarHandleOptions")
        names = [
            printable((name or b"").decode("utf-8", "replace")) for name in (options.Container(), options.SharedName())
        ]
        return clipped("/".join(name for name in names if name) or "variable")


def is_same_form(one: Value, other: Value) -> bool:
    """Whether two values have one type, shape and scale."""
    if (one.type, one.shape) != (other.type, other.shape):
        return False
    if one.quantization is None or other.quantization is None:
        return one.quantization is other.quantization
    is_single = not one.quantization.per_channel and not other.quantization.per_channel
    return is_single and is_same_quantization(one, other)
