"""Short names of layers, read from workload keys."""

from __future__ import annotations

import re

_IMAGE = re.compile(
    r"(?P<op>(?:dw)?conv2d)-[us]8[us]8-(?P<batch>\d+)x(?P<height>\d+)x(?P<width>\d+)x(?P<channels>\d+)"
    r"-k(?P<kernel>\d+x\d+)x(?P<last>\d+)-s(?P<stride>\d+(?:x\d+)?)-"
)
_DENSE = re.compile(r"dense-[us]8[us]8-(?P<rows>\d+)x(?P<features>\d+)-o(?P<out>\d+)-")


def layer_label(workload: str) -> str:
    """Operator and shape, such as `conv2d 3x3 s2 56x56x64->128`; the whole key if it has another form.

    A batch that is not 1 is the shape's first number.
    """
    dense = _DENSE.match(workload)
    if dense:
        return f"dense {dense['rows']}x{dense['features']}->{dense['out']}"
    image = _IMAGE.match(workload)
    if not image:
        return workload
    batch = "" if image["batch"] == "1" else f"{image['batch']}x"
    shape = f"{batch}{image['height']}x{image['width']}x{image['channels']}"
    stride = "" if image["stride"] == "1" else f" s{image['stride']}"
    # The last number of a depthwise kernel is a multiplier, not a number of channels.
    out = f"->{image['last']}" if image["op"] == "conv2d" else ""
    return f"{image['op']} {image['kernel']}{stride} {shape}{out}"
