"""Why a node can't be computed in float: what TVM's importer has no word for, or gets wrong.

Each limit was found by running ONNX's own test cases of operators through the importer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from int8tune.compiler.graph import ElementType
from int8tune.compiler.islands.supported import MICROSOFT, STANDARD
from int8tune.compiler.onnx_reader.expansions import expansion_of
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.nodes import MICROSOFT as MICROSOFT_DOMAIN
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import DEQUANTIZE, QUANTIZE, Constant
from int8tune.results.text import clipped

# Half a gigabyte of float32; of what is known before the model runs, which TVM computes while it compiles, less.
MOST_VALUES, MOST_KNOWN_VALUES = 1 << 27, 1 << 22
# Whose further outputs the importer makes, too.
SEVERAL_OUTPUTS = ("Split", "TopK")
# Whose inputs have one type in TVM.
_FLOATS = ("f32", "f64", "f16")
_FILE_VERSION = 10
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")

_KNOWN = {"": STANDARD, "ai.onnx": STANDARD, MICROSOFT_DOMAIN: MICROSOFT}

Form = tuple[ElementType, tuple[int, ...]]
Constants = Mapping[str, Constant]


def float_fault(file: OnnxFile, node: Node, constants: Constants, reason: str) -> str | None:
    """Why an island can't have a node; None if it can.

    Args:
        reason: why no integer kernel computes it, which is all there is to say of an operator that nobody knows.
    """
    known = _KNOWN.get(node.proto.domain, {})
    is_expanded = node.proto.domain in _KNOWN and expansion_of(node) is not None
    if node.computes not in known and not is_expanded:
        return reason
    # What an expansion reads of these it checks itself; of those that stood for a QLinear node, attributes are newer.
    is_checked = node.computes in (QUANTIZE, DEQUANTIZE) or (is_expanded and node.proto.domain == MICROSOFT_DOMAIN)
    if not is_checked and (fault := _schema_fault(file, node)):
        return fault
    computed = [index for index, name in enumerate(node.inputs) if name and name not in constants]
    if late := sorted(set(computed) & set(known.get(node.computes, ()))):
        return f"its input {late[0] + 1} must be constant"
    if (
        not is_expanded
        and node.computes not in SEVERAL_OUTPUTS
        and sum(name in file.forms for name in node.outputs) > 1
    ):
        return "only its first output is computed"
    check = _CHECKS.get(node.computes)
    return _size_fault(file, node, bool(computed)) or (check(file, node, constants) if check else None)


def _schema_fault(file: OnnxFile, node: Node) -> str | None:
    """Why a node's inputs and attributes are not those that its operator has."""
    import onnx

    if node.proto.domain == MICROSOFT_DOMAIN:
        return None if len(node.inputs) in (1, 2) and node.inputs[0] else "it must have one input, or two"
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = _FILE_VERSION, {"": file.opset}
    try:
        onnx.checker.check_node(node.proto, context)
    except Exception as error:  # of C++
        reason = next(iter(str(error).splitlines()), "").removeprefix("** Error: ")
        return f"ONNX does not define it so: {clipped(reason)}"
    return None


def _size_fault(file: OnnxFile, node: Node, is_computed: bool) -> str | None:
    shapes = [file.forms[name][1] for name in (*node.outputs, *node.inputs[:1]) if name in file.forms]
    if any(0 in shape for shape in shapes):
        return "it has no values"
    most = MOST_VALUES if is_computed else MOST_KNOWN_VALUES
    largest = max(shapes, key=math.prod, default=())
    return f"its values must be at most {most:,}: {list(largest)}" if math.prod(largest) > most else None


def _forms(file: OnnxFile, node: Node) -> list[Form]:
    return [file.forms[name] for name in node.inputs if name in file.forms]


def _attribute_of(name: str, *values: object) -> Callable[[OnnxFile, Node, Constants], str | None]:
    """A check that an attribute is absent, or one of these."""

    def check(_file: OnnxFile, node: Node, _constants: Constants) -> str | None:
        found = node.attributes.get(name)
        return None if found is None or found in values else f"its {name} must be {values[0]}: {found}"

    return check


def _modulo(file: OnnxFile, node: Node, _constants: Constants) -> str | None:
    is_float = _forms(file, node)[0][0] in _FLOATS
    return "of floats, its fmod must be 1" if is_float and not node.attributes.get("fmod", 0) else None


def _power(file: OnnxFile, node: Node, constants: Constants) -> str | None:
    base, exponent = (type_ for type_, _ in _forms(file, node))
    if base not in _FLOATS or (exponent != base and node.input(1) not in constants):
        return f"its base must be float, and its exponent of the same type or constant: {base}, {exponent}"
    return None


def _numbers_only(file: OnnxFile, node: Node, _constants: Constants) -> str | None:
    type_ = _forms(file, node)[0][0]
    return "its values must be numbers: bool" if type_ == "bool" else None


def _normalization(file: OnnxFile, node: Node, _constants: Constants) -> str | None:
    rank = len(_forms(file, node)[0][1])
    axis = node.attributes.get("axis", -1)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return f"its axis must be one of {rank}: {axis}"
    if node.computes == "RMSNormalization" and axis % rank == 0:
        return "its axis must not be the first"
    return None


def _transposed_convolution(_file: OnnxFile, node: Node, _constants: Constants) -> str | None:
    return "its padding must be given, not the shape of its output" if "output_shape" in node.attributes else None


def _dropout(_file: OnnxFile, node: Node, _constants: Constants) -> str | None:
    return "it must not be in training mode" if node.input(2) else None


def _gather(file: OnnxFile, node: Node, constants: Constants) -> str | None:
    """Indices that are computed are clipped where the model runs; of known ones, wrong ones are a fault of the file."""
    (_, shape), known = file.forms[node.inputs[0]], constants.get(node.input(1))
    if known is None or not known.array.size:
        return None
    if node.computes == "GatherND":
        batch = node.attributes.get("batch_dims", 0)
        extents = np.array(shape[batch : batch + known.array.shape[-1]] if isinstance(batch, int) else (), np.int64)
        if extents.size != known.array.shape[-1]:
            return "its indices must be those of its axes"
    else:
        axis, rank = node.attributes.get("axis", 0), len(shape)
        if not isinstance(axis, int) or not -rank <= axis < rank:
            return f"its axis must be one of {list(shape)}: {axis}"
        extents = np.array(shape[axis])
    if ((known.array < -extents) | (known.array >= extents)).any():
        return f"its indices must be within {extents.tolist()}"
    return None


def _resize(file: OnnxFile, node: Node, constants: Constants) -> str | None:
    at, forms = node.attributes, _forms(file, node)
    source, made = forms[0][1], file.forms[node.outputs[0]][1]
    mode = at.get("coordinate_transformation_mode", "half_pixel")
    if at.get("antialias"):
        return None  # written by `antialias`, which says why not
    if "axes" in at or at.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it must have neither axes nor a policy for its aspect ratio"
    if len(source) not in (3, 4, 5) or source[:2] != made[:2] or mode not in _COORDINATES:
        return f"only images are resized, by the coordinates {', '.join(_COORDINATES)}: {list(source)}, {mode}"
    if mode == "align_corners" and 1 in made[2:]:
        return "corners can't be aligned on an axis of one value"
    scales = constants.get(node.input(2) if len(node.inputs) > 2 else node.input(1))
    if not node.input(3) and scales is not None and scales.array.size == len(source):
        exact = scales.array.astype(np.float64) * np.array(source)
        if (exact != np.array(made)).any():
            return f"its scales must give whole numbers: {exact.tolist()}"
    return None


_CHECKS: dict[str, Callable[[OnnxFile, Node, Constants], str | None]] = {
    "Mod": _modulo,
    "Pow": _power,
    "ReduceMax": _numbers_only,
    "ReduceMin": _numbers_only,
    "LayerNormalization": _normalization,
    "RMSNormalization": _normalization,
    "BatchNormalization": _attribute_of("training_mode", 0),
    "SpaceToDepth": _attribute_of("mode", "DCR"),
    "MaxPool": _attribute_of("storage_order", 0),
    "ConvTranspose": _transposed_convolution,
    "Dropout": _dropout,
    "Gather": _gather,
    "GatherElements": _gather,
    "GatherND": _gather,
    "Resize": _resize,
}
