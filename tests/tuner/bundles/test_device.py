"""A device that packs what it is asked, as a campaign's loop sees it."""

from __future__ import annotations

import select
from pathlib import Path

from int8tune.rpc.agent.build import Bundle as AgentBundle
from int8tune.rpc.bundle.pack import Packer
from int8tune.rpc.request import Program
from int8tune.tuner.bundles.device import Packing


def test_it_never_wakes_who_waits_for_an_answer(tmp_path: Path) -> None:
    """Whoever is woken asks again, at once: a core would be busy for nothing, beside the builds."""
    library = tmp_path / "probe.so"
    library.write_bytes(b"code")
    packing = Packing(Packer(tmp_path, AgentBundle("", tmp_path, {})), Program(str(library), "", "main", ()), 0)
    try:
        assert packing.take(0.0) is None
        assert select.select([packing.done], [], [], 0.0) == ([], [], [])
    finally:
        packing.close()
