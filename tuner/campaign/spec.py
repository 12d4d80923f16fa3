"""What a campaign is asked to do, checked before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from int8tune.compiler.network import Network
from int8tune.results.record import CacheMode, Campaign
from int8tune.schedules.target import Target
from int8tune.tuner.campaign_name import require_name
from int8tune.tuner.errors import CampaignDiffersError, SpecError
from int8tune.tuner.search.registry import strategy_names

MOST_TRIALS = 1_000_000
LONGEST_S = 30 * 86400
DEFAULT_TRIALS = 32
DEFAULT_STRATEGY = "xgboost"
DEFAULT_MIN_GAIN = 0.005


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """A campaign's description.

    Attributes:
        trials_per_task: budget of one layer, the default configs included. A strategy that learns spends that of all
            layers where it shortens the network most.
        time_limit_s: stop after this long, to be continued; None for no limit.
        min_gain: a layer ends early when a model expects that its next batch saves less than this share of its time; 0:
            never.
        cache: where kernels find their data and weights when they are timed; None: as it was begun, or as the device
            has it.
    """

    name: str
    network: Network
    strategy: str = DEFAULT_STRATEGY
    seed: int = 0
    trials_per_task: int = DEFAULT_TRIALS
    time_limit_s: float | None = None
    cache: CacheMode | None = None
    min_gain: float = DEFAULT_MIN_GAIN

    def __post_init__(self) -> None:
        require_name(self.name)
        if not 1 <= self.trials_per_task <= MOST_TRIALS:
            raise SpecError(f"trials per layer must be 1 to {MOST_TRIALS}: {self.trials_per_task}")
        if not 0 <= self.seed < 2**32:
            raise SpecError(f"a seed must be 0 to {2**32 - 1}: {self.seed}")
        if self.time_limit_s is not None and not 1 <= self.time_limit_s <= LONGEST_S:
            raise SpecError(f"a time limit must be 1 s to 30 days, in seconds: {self.time_limit_s:g}")
        if not 0 <= self.min_gain < 1:
            raise SpecError(f"the smallest gain worth a batch must be a share from 0 to below 1: {self.min_gain:g}")
        if self.strategy not in strategy_names():
            raise SpecError(f"unknown search strategy `{self.strategy}`, known: {', '.join(strategy_names())}")

    def as_record(self, device: str, target: Target) -> Campaign:
        return Campaign(
            name=self.name,
            network=self.network.name,
            device=device,
            target=target.name,
            strategy=self.strategy,
            seed=self.seed,
            trials_per_task=self.trials_per_task,
            layers={layer.workload.key: layer.count for layer in self.network.layers},
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            names={layer.workload.key: layer.names for layer in self.network.layers},
        )


def require_same(asked: Campaign, stored: Campaign) -> None:
    """A campaign is resumed as it was started; only its budget may change.

    Raises:
        CampaignDiffersError: the message has both values.
    """
    for name in ("network", "device", "target", "strategy", "seed"):
        before, now = getattr(stored, name), getattr(asked, name)
        if before != now:
            raise CampaignDiffersError(f"campaign `{asked.name}` was started with {name} {before}, now it is: {now}")
    if dict(stored.layers) != dict(asked.layers):
        changed = sorted(set(stored.layers) ^ set(asked.layers)) or sorted(stored.layers)
        raise CampaignDiffersError(f"campaign `{asked.name}` was started with other layers, such as: {changed[0]}")
