"""Records: everything that was tried and measured, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from int8tune.results.base import E, Store
from int8tune.results.best import best_schedules
from int8tune.results.forms import Form, form_of
from int8tune.results.record import Campaign, Duel, Trial
from int8tune.results.report.tables import Row
from int8tune.results.stores import open_store
from int8tune.results.t4 import t4_document
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.documents import Document, json_text, require_form
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.record_rows import (
    bench_rows,
    board_rows,
    campaign_rows,
    device_rows,
    duel_rows,
    run_rows,
    trial_rows,
)
from int8tune.tuner.errors import RecordingError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.lab.recording import COLUMNS, record_layers
from int8tune.tuner.publish import choose_campaign

if TYPE_CHECKING:
    import pandas

VERSION = 1
"""Version of the JSON form of exported trials."""
EXPORTED_FORMS = (Form.PARQUET, Form.CSV, Form.JSON, Form.T4, Form.METASCHEDULE)
_OF_CAMPAIGNS: dict[str, Callable[[Store, str | None], Iterator[Row]]] = {
    "trials": trial_rows,
    "duels": duel_rows,
    "campaigns": campaign_rows,
    "runs": run_rows,
    "boards": board_rows,
}
_OF_ALL: dict[str, Callable[[Store], Iterator[Row]]] = {"devices": device_rows, "benches": bench_rows}
TABLES = (*_OF_CAMPAIGNS, *_OF_ALL)


class Records:
    """The records of a results folder, a results file, or a URL. They are read when they are asked for."""

    def __init__(self, where: str | Path = DEFAULT_RESULTS) -> None:
        """Open records for reading.

        Raises:
            StoreError: they are not there, or can't be read.
        """
        self._where = where
        self._store = open_store(where, readonly=True)

    @property
    def campaigns(self) -> tuple[Campaign, ...]:
        """As they were started, in this order."""
        return tuple(self._store.query(Campaign))

    def query(self, kind: type[E], **filters: str | None) -> Iterator[E]:
        """Entries of one kind as values, such as `Trial`; filters are `campaign`, `workload`, `target` and `device`."""
        return self._store.query(kind, **filters)

    def to_pandas(self, table: str = "trials", *, campaign: str | None = None) -> pandas.DataFrame:
        """A table with all columns.

        Args:
            table: `trials`, each with its candidate, campaign, raw times, environment, device and duels; `duels`, a
                row for each pair of times; `campaigns`; `runs`, who ran them, where and by which command; `devices`,
                `benches`.
            campaign: only this one's, where rows are a campaign's.

        Raises:
            RecordingError: there is no such table, or its rows are no campaign's.
            UnknownCampaignError: there is no such campaign.
        """
        if table not in TABLES:
            raise RecordingError(f"unknown table `{table[:60]}`, known: {', '.join(TABLES)}")
        if table in _OF_ALL:
            if campaign is not None:
                raise RecordingError(f"rows of `{table}` belong to no campaign: leave campaign out")
            return frame_of(list(_OF_ALL[table](self._store)))
        chosen = None if campaign is None else choose_campaign(self._store, campaign)
        rows = list(_OF_CAMPAIGNS[table](self._store, chosen))
        return frame_of(rows, COLUMNS if table == "trials" else ())

    def export(self, out: str | Path, *, campaign: str | None = None) -> Exported:
        """Write a campaign's trials with all columns: `.parquet`, `.csv` or `.json`; in CSV, lists are JSON.

        `.t4.json` is what other auto-tuners read: configurations, raw times, and how each trial ended. `.metaschedule`
        is a folder with the best schedules as TVM's MetaSchedule reads them, as far as they are traces of TVM's.

        Args:
            campaign: the only one if None.

        Raises:
            RecordingError: it was estimated.
            NoTraceError: for MetaSchedule, none of the best schedules is a trace.
            NoTvmError: for MetaSchedule, TVM is not installed.
            UnknownFormError: the extension is of another form.
            NoParquetError: pyarrow is not installed.
            ExportError: the file can't be written.
            UnknownCampaignError: it is not clear which campaign.
        """
        path = Path(out)
        if form_of(path, EXPORTED_FORMS) is Form.METASCHEDULE:
            return self._export_schedules(path, choose_campaign(self._store, campaign))
        require_form(path, EXPORTED_FORMS)
        chosen = choose_campaign(self._store, campaign)
        layers = record_layers(self._store.query(Trial, campaign=chosen), self._store.query(Duel, campaign=chosen))
        texts = {
            Form.JSON: lambda: json_text({"int8tune_trials": VERSION, "trials": self._rows(chosen)}),
            Form.T4: lambda: json_text(t4_document(self._store.query(Trial, campaign=chosen))),
        }
        Document(texts, lambda: self._rows(chosen), COLUMNS).write(path)
        return Exported(path, sum(len(layer.times_s) for layer in layers), len(layers))

    def _export_schedules(self, folder: Path, campaign: str) -> Exported:
        require_tuning()
        from int8tune.tuner.metaschedule.database import write_database  # imports TVM

        written, left_out = write_database(folder, best_schedules(self._store, campaign=campaign))
        return Exported(folder, len(written), len(written), tuple(left_out))

    def _rows(self, campaign: str) -> list[Row]:
        return list(trial_rows(self._store, campaign))

    def close(self) -> None:
        """Let go of the records. Closing twice is allowed."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        names = [campaign.name for campaign in self.campaigns]
        return f"<Records in {self._where}: {listed(len(names), 'campaign')}: {', '.join(names)}>"


class Exported:
    """A table that was written.

    Attributes:
        configs, layers: how many of them, layers without any config that works left out.
        left_out: a line for each best schedule that MetaSchedule's database can't hold.
    """

    def __init__(self, path: Path, configs: int, layers: int, left_out: tuple[str, ...] = ()) -> None:
        self.path, self.configs, self.layers, self.left_out = path, configs, layers, left_out

    def __repr__(self) -> str:
        return f"<Exported {self.configs:,} configs of {listed(self.layers, 'layer')}: {self.path}>"


def records(where: str | Path = DEFAULT_RESULTS) -> Records:
    """Open records for reading.

    Args:
        where: a results folder, a results file, or a URL that an installed package opens.

    Raises:
        StoreError: they are not there, or can't be read.
    """
    return Records(where)
