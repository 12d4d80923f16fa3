"""What a function takes for a network."""

from __future__ import annotations

from pathlib import Path

from int8tune.compiler.batches import network_with_batch
from int8tune.compiler.network import Network
from int8tune.compiler.network_file import load_network

NetworkLike = str | Path | Network
"""A network's name, the path of a model (.tflite, .onnx) or of a layer table (.json), or a network."""


def as_network(network: NetworkLike, batch: int = 1) -> Network:
    """The network, for so many times as many inputs.

    Raises:
        UnknownNetworkError, ModelError, LayerTableError: as `load_network`.
        BatchError, WorkloadError: as `network_with_batch`.
    """
    found = network if isinstance(network, Network) else load_network(str(network))
    return network_with_batch(found, batch)
