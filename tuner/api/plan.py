"""What tuning would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from int8tune.results.label import layer_label
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import target_for
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.networks import NetworkLike, as_network
from int8tune.tuner.campaign.plan import Task, make_plan, most_trials
from int8tune.tuner.campaign.spec import DEFAULT_TRIALS, CampaignSpec
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.given import BindLike, ShapeLike

if TYPE_CHECKING:
    import pandas

# Of MobileNet V2's and ResNet-18's layers on two cores of a server.
TYPICAL_TRIAL_S = 0.2


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """What tuning would do with one layer.

    Attributes:
        count: how often the network runs it.
        workload: its key.
        space: how many configs the template has for it.
    """

    name: str
    label: str
    count: int
    workload: str
    template: str
    space: int
    trials: int


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """What tuning a network would do on this machine.

    Attributes:
        cpu: as it calls itself.
        measuring_cores, building_cores: of those that measure, the last one builds in between.
        trials: the most of all layers: what a small space leaves of its trials is spent on others.
    """

    network: str
    target: str
    cpu: str
    measuring_cores: tuple[int, ...]
    building_cores: tuple[int, ...]
    layers: tuple[PlannedLayer, ...]
    trials: int

    @property
    def predicted_s(self) -> float:
        """About how long it would take at most."""
        return self.trials * TYPICAL_TRIAL_S

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each distinct layer."""
        from dataclasses import asdict

        about = {"network": self.network, "target": self.target}
        return frame_of([about | asdict(layer) for layer in self.layers])

    def __repr__(self) -> str:
        work = f"{listed(len(self.layers), 'layer')}, at most {listed(self.trials, 'trial')}"
        return f"<Plan of {self.network} on {self.target}: {work}, about {self.predicted_s:.0f} s>"


def plan(
    network: NetworkLike,
    *,
    batch: int = 1,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
    target: str | None = None,
    trials: int = DEFAULT_TRIALS,
    threads: int = 1,
) -> Plan:
    """Say what `tune` would do on this machine, and about how long. Builds and runs nothing.

    Args:
        network: a name such as `mobilenet_v2`, a model, a layer table, or a network.
        batch: inputs at once, for each of the network.
        bind: values of a model's inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: shapes of its inputs, by name, where the file leaves extents open; of several, the layers of all.
        until: values at which a model ends, in place of its own outputs.
        target: a profile such as `x86-avx512vnni`; the best of this CPU if None.
        trials: per distinct layer.
        threads: cores that a kernel uses.

    Raises:
        UnknownNetworkError, ModelError, LayerTableError, BatchError: the network can't be read.
        SpecError: a number is out of its range.
        UnknownTargetError: nobody registered the profile, or this CPU can't run it.
    """
    require_tuning()
    spec = CampaignSpec("plan", as_network(network, batch, bind, shape, until), trials_per_task=trials)
    measuring, building = measuring_and_build_cores(threads)
    with LocalTransport(measuring) as transport:
        device = transport.start()
    chosen = target_for(device.features, device.llvm_cpu, device.llvm_triple, target, threads)
    tasks = make_plan(spec.network, chosen)
    layers = tuple(_planned(task, trials) for task in tasks)
    return Plan(spec.network.name, chosen.name, device.cpu, measuring, building, layers, most_trials(tasks, trials))


def _planned(task: Task, trials: int) -> PlannedLayer:
    return PlannedLayer(
        name=task.name,
        label=layer_label(task.workload.key),
        count=task.count,
        workload=task.workload.key,
        template=task.template.name,
        space=task.space.size,
        trials=task.trials(trials),
    )
