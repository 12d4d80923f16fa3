"""Which of two values ONNX Runtime spreads over the other.

Source: core/framework/op_node_proto_helper.h and providers/cpu/element_wise_ops.h, Broadcaster.
"""

from __future__ import annotations


def is_first_spread(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a run of values behind each other meets a single value of the first one.

    A run is what the innermost axis with several values has. A single value is taken as the second operand then.
    """
    if not one or not other:
        return not one or one[-1] == 1
    for first, second in zip(one[::-1], other[::-1], strict=False):
        if max(first, second) > 1:
            return first == 1
    return True
