"""Networks that a user names, and what is said of those that are models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.network import Network, of_several_sizes
from int8tune.compiler.network_file import is_model, load_network
from int8tune.tuner.errors import SpecError

NOTHING = (NOTHING_GIVEN,)


def given_network(network: str | Path | Network, givens: Sequence[Given] = NOTHING) -> Network:
    """A network; of a model, the layers that it has with each of what is given.

    Raises:
        SpecError: values or shapes are given for what is no model.
        UnknownNetworkError, ModelError, LayerTableError: as `load_network`.
    """
    require_model(network, givens)
    if isinstance(network, Network):
        return network
    return of_several_sizes([load_network(str(network), given) for given in givens])


def require_model(network: str | Path | Network, givens: Sequence[Given]) -> None:
    """Check that values and shapes of inputs are given for a model alone.

    Raises:
        SpecError: they are given for something else.
    """
    if any(givens) and (isinstance(network, Network) or not is_model(network)):
        raise SpecError(
            "only a model is given values and shapes of inputs, or ends before its outputs; this is a table of layers"
        )
