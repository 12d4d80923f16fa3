"""Recordings that the templates of this version can't replay, or not whole, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence

from int8tune.tuner.errors import RecordingError
from int8tune.tuner.lab.recorded_layer import RecordedLayer

# Different reasons that one line names.
MOST_REASONS = 4


def replayable(layers: Sequence[RecordedLayer]) -> tuple[list[RecordedLayer], list[str]]:
    """The layers that can be replayed, and a line for each kind of loss.

    Raises:
        RecordingError: none can.
    """
    kept = [layer for layer in layers if layer.loss is None]
    lost = [layer.loss for layer in layers if layer.loss is not None]
    words = f"{len(lost)} of {len(layers)} recordings have lost their template: {_listed(lost)}"
    if not kept:
        raise RecordingError(words)
    notices = [f"left out, {words}"] if lost else []
    if shrunk := [layer for layer in kept if layer.missing_configs]:
        count = sum(layer.missing_configs for layer in shrunk)
        names = _listed([layer.template for layer in shrunk])
        notices.append(
            f"left out, {count:,} configs of {len(shrunk)} recordings are no longer in the space of: {names}"
        )
    if old := [layer for layer in kept if not layer.has_present_kernels]:
        names = _listed([f"{layer.template} version {layer.kernels_version}" for layer in old])
        notices.append(f"{len(old)} of {len(layers)} recordings are of kernels that are no longer made: {names}")
    return kept, notices


def _listed(reasons: Sequence[str]) -> str:
    different = list(dict.fromkeys(reasons))
    more = [f"and {len(different) - MOST_REASONS} more"] if len(different) > MOST_REASONS else []
    return "; ".join([*different[:MOST_REASONS], *more])
