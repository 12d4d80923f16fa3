"""In which forms a layer may be computed in a quantized model."""

from __future__ import annotations

from enum import StrEnum


class Form(StrEnum):
    """How a convolution or dense layer is computed.

    `PER_CHANNEL`, `PER_TENSOR` and `ZERO_POINTS` are of 8-bit data and weights: with one scale of weights for each
    output channel, with one for all, and with one for all and a zero point. A layer of `WORDS` reads 16-bit data, which
    whatever makes it stores so, and has the weights of the other layers. `FLOAT` is left as it is.
    """

    PER_CHANNEL = "per-channel"
    PER_TENSOR = "per-tensor"
    ZERO_POINTS = "zero-points"
    WORDS = "16-bit"
    FLOAT = "float"


# Forms whose weights have one scale for all channels.
WHOLE_TENSOR = frozenset({Form.PER_TENSOR, Form.ZERO_POINTS})
