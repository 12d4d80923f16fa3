"""What recorded layers teach each other. Each is encoded once, and each model learned once, when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from int8tune.schedules.target import named_target
from int8tune.tuner.cost_model.experience import LayerExperience, experience_of
from int8tune.tuner.cost_model.prior import Prior, learn_prior
from int8tune.tuner.lab.recording import RecordedLayer, replayed


class Classroom:
    """Recorded layers by their index, with what each can teach, and what the others teach it."""

    def __init__(self, layers: Sequence[RecordedLayer]) -> None:
        self.layers = tuple(layers)
        self._experience: dict[int, list[LayerExperience]] = {}
        self._priors: dict[int, Prior | None] = {}

    def experience(self, index: int) -> list[LayerExperience]:
        """What a layer can teach: one value, or none where its template has changed."""
        if index not in self._experience:
            layer = self.layers[index]
            trials = (replayed(layer, layer.candidate(config), place) for place, config in enumerate(layer.space))
            self._experience[index] = experience_of(trials, layer.template, named_target(layer.target))
        return self._experience[index]

    def prior_of(self, indices: Iterable[int]) -> Prior | None:
        """What these layers teach; None where that is nothing."""
        return learn_prior([experience for index in indices for experience in self.experience(index)])

    def prior_without(self, index: int) -> Prior | None:
        """What the layers taught that have the template and target of one of them, that one left out."""
        if index not in self._priors:
            self._priors[index] = self.prior_of(at for at in self.alike(index) if self.layers[at] != self.layers[index])
        return self._priors[index]

    def alike(self, index: int) -> list[int]:
        """The layers with the template and target of one of them."""
        layer = self.layers[index]
        wanted = layer.template, layer.target
        return [at for at, other in enumerate(self.layers) if (other.template, other.target) == wanted]
