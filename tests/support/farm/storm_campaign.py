"""A campaign on the boards of an inventory, as `int8tune tune --devices` runs it, over the timed template's configs.

    python -m storm_campaign FARM_TOML RESULTS CONFIGS

It is ended by signals, as that is; the exit code is 0 where all is measured, 4 where boards are lost or not there.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import int8tune.schedules.registry
import int8tune.tuner.campaign.farm
import int8tune.tuner.campaign.run
from int8tune.results.record import DeviceCheck
from int8tune.results.store import SqliteStore
from int8tune.rpc.errors import DeviceStartError
from int8tune.rpc.farm.driver import RULES
from int8tune.rpc.inventory.file import read_inventory
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.boards import Boards
from int8tune.tuner.campaign.events import Silence
from int8tune.tuner.campaign.farm import sites_of
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.run import MeasuringSite, run_on
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.errors import CampaignError
from int8tune.tuner.folders import STORE_FILE, make_folder
from tests.support.places import PYTHON_PATH
from tests.support.program.campaigns import SMALL, network_of
from tests.support.program.results_samples import check
from tests.support.stand_ins.timed_template import TimedTemplate

# Builds go on beside these boards, on the same cores: what a canary takes says little here.
TOLERANCE = 30.0


def main(farm: Path, results: Path, configs: int) -> int:
    int8tune.schedules.registry.TEMPLATES = (TimedTemplate(configs),)
    os.environ["INT8TUNE_TIMED_CONFIGS"] = str(configs)
    os.environ["PYTHONPATH"] = PYTHON_PATH
    pool = partial(BuildPool, server="tests.support.stand_ins.timed_build_server")
    int8tune.tuner.campaign.run.BuildPool = pool  # type: ignore[assignment,attr-defined]
    rules = replace(RULES, canary_tolerance=TOLERANCE)
    int8tune.tuner.campaign.farm.Boards = partial(Boards, rules=rules)  # type: ignore[assignment,attr-defined]
    spec = CampaignSpec("storm", network_of(SMALL), "random", trials_per_task=configs)
    try:
        with sites_of(read_inventory(farm).boards, "generic") as (site,):
            _skip_device_check(site, results)
            run_result = run_on(site, spec, results, Silence(), lambda: False)
    except (DeviceStartError, CampaignError) as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 4
    return int(run_result.ending is not Ending.FINISHED)


def _skip_device_check(site: MeasuringSite, results: Path) -> None:
    """How fast the boards are says nothing here."""
    with SqliteStore(make_folder(results) / STORE_FILE) as store:
        if not any(store.query(DeviceCheck, device=site.device)):
            store.append([check(device=site.device, target=site.target.name)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
