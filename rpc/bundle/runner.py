"""Measures what a bundle holds on the device that this runs on, and writes results as it goes.

The farm's own scheduler decides what counts, with this device as its only board: canaries, quarantine, who is guilty.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from int8tune.results.own_files import require_own_folder
from int8tune.rpc.board.local_agent import write_launcher
from int8tune.rpc.bundle.archive import AGENT_FOLDER, Bundle, extract
from int8tune.rpc.bundle.manifest import Item, located, located_request
from int8tune.rpc.bundle.results_file import ResultsFile
from int8tune.rpc.errors import WrongDeviceError
from int8tune.rpc.farm.driver import CANARY_LIMIT_S, CANARY_TIMING, LIMITS, RULES, FarmDriver
from int8tune.rpc.farm.events import Open
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.values import Board as FarmBoard
from int8tune.rpc.farm.values import Campaign, State, Trial
from int8tune.rpc.inventory.boards import FIRST_GPU, GPU_MEMORY_BYTES, Board, Limits, TimingKind, TransportKind
from int8tune.rpc.request import Capabilities, Request
from int8tune.rpc.transports.agent import AgentTransport

CANARY_EVERY = 20
"""What a killed run had measured since its last canary is measured again."""

_LIMITS = Limits(connect_s=30.0, memory_bytes=GPU_MEMORY_BYTES, disk_bytes=16 << 30)
_QUEUE = "bundle"
_MONTH_S = 30 * 86_400.0
_LOOK_EVERY_S = 0.5
_SAY_EVERY_S = 5.0
_AGAIN = ", again"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a bundle is run.

    Attributes:
        folder: where results go, and what sessions need meanwhile.
        cores: those that kernels run on; the last ones that this process may use if empty.
        canary_tolerance: by which share the canary may be slower or faster than it was.
        emulator: a command before the agent's, for an architecture that this machine is not; its times mean nothing.
    """

    folder: Path
    cores: tuple[int, ...] = ()
    canary_tolerance: float = RULES.canary_tolerance
    emulator: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a run.

    Attributes:
        items: of the bundle.
        before: those that earlier runs had measured.
        failed: those that could not be measured this time, and why the last of them was not.
    """

    results: Path
    items: int
    before: int
    failed: int
    cause: str


def run_bundle(bundle: Bundle, settings: Settings, say: Callable[[str], None]) -> Summary:
    """Measure what is not in the results yet.

    Raises:
        BundleError: a file of the bundle is not what was packed.
        BundleResultsError: the results are another bundle's, or another device's, or somebody writes them.
        WrongDeviceError: this device can't run what the bundle has.
        DeviceStartError: the agent does not start.
        OSError: something can't be written.
    """
    _require_architecture(bundle, settings)
    path = settings.folder / f"{bundle.path.stem}.results"
    with ExitStack() as stack:
        results = ResultsFile(path, bundle)
        stack.callback(results.close)
        todo = [item for item in bundle.manifest.items if item.id not in results.replies]
        before = len(results.replies)
        failed, cause = 0, ""
        if todo:
            folder = stack.enter_context(_work_folder(settings.folder / f".{bundle.path.stem}.work"))
            extract(bundle, folder)
            transport = AgentTransport(_board(bundle, settings), (_prepare_agent(bundle, folder, settings),))
            stack.callback(transport.close)
            device = transport.start()
            require_features(bundle, device)
            results.begin(device)
            failed, cause = _Measuring(bundle, folder, settings, transport, results, say).run(todo)
        return Summary(path, len(bundle.manifest.items), before, failed, cause)


def require_features(bundle: Bundle, device: Capabilities) -> None:
    """Raises: WrongDeviceError: the device's CPU lacks something."""
    if missing := sorted(bundle.manifest.needs - device.features):
        raise WrongDeviceError(f"this device can't run `{bundle.manifest.target}`, its CPU lacks: {', '.join(missing)}")


def _require_architecture(bundle: Bundle, settings: Settings) -> None:
    wanted, here = bundle.manifest.architecture, platform.machine()
    if wanted != here and not settings.emulator:
        raise WrongDeviceError(f"this bundle is for {wanted}, this device is: {here}")


class _Measuring:
    def __init__(
        self,
        bundle: Bundle,
        folder: Path,
        settings: Settings,
        transport: AgentTransport,
        results: ResultsFile,
        say: Callable[[str], None],
    ) -> None:
        self._bundle = bundle
        self._folder = folder
        self._canary_tolerance = settings.canary_tolerance
        self._transport = transport
        self._results = results
        self._say = say
        self._state = State.UNKNOWN
        self._said, self._said_s = 0, time.monotonic()

    def run(self, todo: Sequence[Item]) -> tuple[int, str]:
        """How many could not be measured, and why the last of them was not."""
        driver = self._driver()
        items = {item.id: item for item in todo}
        try:
            driver.tell(Open(Campaign(_QUEUE)))
            driver.submit(*map(self._work, todo))
            failed, cause = 0, ""
            while items:
                for ending in driver.take(_LOOK_EVERY_S):
                    item = items[ending.trial.removesuffix(_AGAIN)]
                    if ending.reply and ending.reply.was_killed and ending.trial == item.id:
                        self._say(f"a session was killed from outside, it is repeated: {ending.reply.error}")
                        driver.submit(self._work(item, _AGAIN))
                        continue
                    del items[item.id]
                    if ending.reply is None:
                        failed, cause = failed + 1, ending.cause
                    else:
                        self._results.add(item.id, ending.reply)
                self._tell(driver)
            return failed, cause
        finally:
            driver.close()

    def _driver(self) -> FarmDriver:
        board = FarmBoard(
            self._bundle.manifest.device,
            _QUEUE,
            limits=LIMITS,
            canary_every=CANARY_EVERY,
            canary_tolerance=self._canary_tolerance,
        )
        scheduler = Scheduler([board], replace(RULES, queue_s=_MONTH_S), random.random)
        canary = Request((located(self._bundle.manifest.canary, self._folder),), CANARY_TIMING, CANARY_LIMIT_S)
        return FarmDriver({board.name: self._transport}, scheduler, canary)

    def _work(self, item: Item, attempt: str = "") -> tuple[Trial, Request]:
        request = located_request(item.request, self._folder)
        return Trial(item.id + attempt, _QUEUE, _QUEUE, run_limit_s=request.run_limit_s), request

    def _tell(self, driver: FarmDriver) -> None:
        """How far it is, now and then; and that the device is off, once."""
        (status,) = driver.status()
        if status.state in (State.QUARANTINED, State.LOST) and self._state is not status.state:
            self._say(f"the device is {status.state}: {status.cause}")
        self._state = status.state
        done, all_items = len(self._results.replies), len(self._bundle.manifest.items)
        if self._said < status.trials and done < all_items and time.monotonic() > self._said_s + _SAY_EVERY_S:
            self._said, self._said_s = status.trials, time.monotonic()
            sessions = "session" if status.trials == 1 else "sessions"
            self._say(f"{status.trials:,} {sessions}, measured {done:,} of {all_items:,}")


def _board(bundle: Bundle, settings: Settings) -> Board:
    manifest = bundle.manifest
    return Board(
        name=manifest.device,
        transport=TransportKind.LOCAL,
        cores=settings.cores or tuple(sorted(os.sched_getaffinity(0)))[-manifest.threads :],
        threads=manifest.threads,
        gpu=FIRST_GPU if manifest.kind == "gpu" else None,
        timing=TimingKind.NONE if settings.emulator else TimingKind.MEASURED,
        limits=_LIMITS,
        emulator=settings.emulator,
    )


def _prepare_agent(bundle: Bundle, folder: Path, settings: Settings) -> str:
    """What starts the agent."""
    agent = folder / AGENT_FOLDER
    (agent / "agent").chmod(0o700)
    (agent / "bundle").write_text(f"{bundle.manifest.agent}\n")
    return str(write_launcher(agent, settings.emulator))


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """A folder that is empty at the start, even after a kill, and gone at the end; who has the results' lock has it."""
    require_own_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
