"""What a function takes for a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from int8tune.compiler.batches import network_with_batch
from int8tune.compiler.network import Network
from int8tune.tuner.given_network import given_network
from int8tune.tuner.models.given import BindLike, ShapeLike, all_given

NetworkLike = str | Path | Network
"""A network's name, the path of a model (.tflite, .onnx) or of a layer table (.json), or a network."""


def as_network(
    network: NetworkLike,
    batch: int = 1,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
) -> Network:
    """The network, for so many times as many inputs; of a model with inputs of several shapes, the layers of all.

    Raises:
        SpecError, GivenError, SamplesError: as `all_given` and `given_network`.
        UnknownNetworkError, ModelError, LayerTableError: as `load_network`.
        BatchError, WorkloadError: as `network_with_batch`.
    """
    return network_with_batch(given_network(network, all_given(bind, shape, until)), batch)
