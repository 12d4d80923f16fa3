"""What recorded layers teach each other. Each is encoded once, and each model learned once, when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from int8tune.schedules.target import named_target
from int8tune.tuner.cost_model.experience import LayerExperience, experience_of
from int8tune.tuner.cost_model.prior import Prior, learn_prior
from int8tune.tuner.lab.recorded_layer import RecordedLayer, replayed


class Classroom:
    """Recorded layers by their index, with what each can teach, and what the others teach it."""

    def __init__(self, layers: Sequence[RecordedLayer]) -> None:
        self.layers = tuple(layers)
        self._experience: dict[int, list[LayerExperience]] = {}
        self._priors: dict[int, Prior | None] = {}

    def experience(self, index: int) -> list[LayerExperience]:
        """What a layer can teach: one value, or none where it is another tuner's."""
        if index not in self._experience:
            layer = self.layers[index]
            if layer.parsed() is None:
                return []
            trials = (replayed(layer, layer.candidate(config), place) for place, config in enumerate(layer.space))
            self._experience[index] = experience_of(trials, layer.template, named_target(layer.target))
        return self._experience[index]

    def prior_of(self, indices: Iterable[int]) -> Prior | None:
        """What these layers teach; None where that is nothing."""
        return learn_prior([experience for index in indices for experience in self.experience(index)])

    def prior_without(self, index: int) -> Prior | None:
        """What the layers taught that are like one of them, that one left out."""
        if index not in self._priors:
            self._priors[index] = self.prior_of(at for at in self.alike(index) if self.layers[at] != self.layers[index])
        return self._priors[index]

    def alike(self, index: int) -> list[int]:
        """The layers with the target of one of them, and kernels of the same version of a template."""
        wanted = _kernels(self.layers[index])
        return [at for at, other in enumerate(self.layers) if _kernels(other) == wanted]


def _kernels(layer: RecordedLayer) -> tuple[str, str, int]:
    return layer.template, layer.target, layer.kernels_version
