"""A campaign loop on this machine, put together by hand so that tests can replace its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from int8tune.compiler.network import Layer, Network
from int8tune.results.base import Store
from int8tune.results.record import Campaign, Trial
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.candidate_builder import CandidateBuilder
from int8tune.tuner.campaign.events import Silence
from int8tune.tuner.campaign.loop import CampaignLoop
from int8tune.tuner.campaign.loop_context import LoopContext, Purpose
from int8tune.tuner.campaign.measuring import Device, Measuring
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.campaign.search import make_search
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.cores import measuring_and_build_cores

SMALL = "conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8"
SMALL_DEPTHWISE = "dwconv2d-u8s8-1x9x9x32-k3x3x1-s1-p1-float.c-u8"


def network_of(*keys: str) -> Network:
    layers = tuple(Layer((f"layer{index}",), 1, parse_workload(key)) for index, key in enumerate(keys))
    return Network("small", "layers for tests", None, layers)


@contextmanager
def campaign_loop(
    spec: CampaignSpec,
    tasks: Sequence[Task],
    store: Store,
    folder: Path,
    *,
    server: str = "int8tune.tuner.builder.server",
    transport: Transport | None = None,
    measuring_with: Measuring[Purpose] | None = None,
    build_limit_s: float = 20.0,
    session_limit_s: float = 10.0,
    stop_requested: Callable[[], bool] = lambda: False,
) -> Iterator[CampaignLoop]:
    measuring, building = measuring_and_build_cores()
    with ExitStack() as stack:
        if measuring_with is None:
            transport = transport or LocalTransport(measuring)
            stack.callback(transport.close)
            transport.start()
            measuring_with = Device(transport, None, session_limit_s)
        stack.callback(measuring_with.close)
        pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log", server))
        if spec.name not in {campaign.name for campaign in store.query(Campaign)}:  # otherwise it goes on
            store.append([spec.as_record("local", tasks[0].target)])
        builds = CandidateBuilder(pool, folder, build_limit_s)
        context = LoopContext(store, builds, measuring_with, "local", {"cpu": "test"}, Silence(), stop_requested)
        yield CampaignLoop(spec, make_search(spec, tasks, store), context)


def trials_of(store: Store, spec: CampaignSpec) -> list[Trial]:
    return list(store.query(Trial, campaign=spec.name))
