"""Networks and layers that are given several inputs at once."""

from __future__ import annotations

from dataclasses import replace

from int8tune.compiler.errors import BatchError
from int8tune.compiler.network import Layer, Network
from int8tune.schedules.workload import Dense, Workload

MOST_BATCH = 1024


def with_batch(workload: Workload, batch: int) -> Workload:
    """The layer on so many times as many inputs.

    Raises:
        BatchError: nobody needs so many, or none.
        WorkloadError: its tensors would be too large.
    """
    if not 1 <= batch <= MOST_BATCH:
        raise BatchError(f"a batch must be 1 to {MOST_BATCH}: {batch}")
    if isinstance(workload, Dense):
        return replace(workload, rows=batch * workload.rows)
    return replace(workload, batch=batch * workload.batch)


def network_with_batch(network: Network, batch: int) -> Network:
    """The network on so many times as many inputs, which its name says, such as `resnet50-batch16`.

    Raises:
        BatchError, WorkloadError: as `with_batch`.
    """
    layers = tuple(Layer(layer.names, layer.count, with_batch(layer.workload, batch)) for layer in network.layers)
    if batch == 1:
        return network
    shape = network.input_shape
    return replace(
        network,
        name=f"{network.name}-batch{batch}",
        input_shape=(batch * shape[0], *shape[1:]) if shape else shape,
        layers=layers,
        published=None,  # says what one input costs
    )
