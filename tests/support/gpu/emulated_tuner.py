"""int8tune on a machine whose GPU is emulated: run in place of `tuner.cli.main`.

The agent of a GPU gets the emulated libraries beside it, and builds are for them.
"""

import sys
from functools import partial
from pathlib import Path

import int8tune.tuner.bench.gpu.site
import int8tune.tuner.board_check
import int8tune.tuner.campaign.run
import int8tune.tuner.metaschedule.spec
from int8tune.rpc.board.local_agent import agent_here
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.tuner.board_transports import AGENTS, TRANSPORTS
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cli.program import run
from tests.support.gpu import emulated as emulated_gpus


def transport(board: Board) -> AgentTransport:
    (launcher,) = agent_here(board)
    emulated_gpus.install(Path(launcher).parent, l2=1 << 20)
    return AgentTransport(board, (launcher,))


if __name__ == "__main__":
    for table in (AGENTS, TRANSPORTS):
        table[TransportKind.GPU] = transport  # type: ignore[index]
    for module in (int8tune.tuner.campaign.run, int8tune.tuner.board_check, int8tune.tuner.bench.gpu.site):
        module.BuildPool = partial(BuildPool, server="tests.support.gpu.emulated_build_server")  # type: ignore[attr-defined]
    int8tune.tuner.metaschedule.spec.RaceSpec = partial(  # type: ignore[assignment, misc]
        int8tune.tuner.metaschedule.spec.RaceSpec, worker="tests.support.gpu.emulated_metaschedule"
    )
    sys.exit(run(sys.argv[1:]))
