"""What can go wrong with records and reports.

ResultsError
├── StoreError           the results file can't be used
│   ├── ForeignStoreError    it belongs to another program, or is damaged
│   │   └── DamagedRowError      rows of it are; the others can be read
│   ├── NewerSchemaError     it was written by a newer version of this program
│   ├── StoreLockedError     another process is writing to it, or to the campaign
│   ├── StoreAwayError       the database that has the records can't be reached
│   └── StoreWriteError      a record could not be written (full disk, read-only folder)
│       └── StoreGoneError       the file was removed, or replaced, while it was written
├── UpkeepError          campaigns can't be joined, renamed, put aside or removed so
│   └── NoSuchCampaignError  there is none of this name; says which was meant
├── BestLogError         a best log that can't be used; lists every fault in it
├── RecordError          a record that contradicts itself (an `OK` without times, a negative time)
├── ComparisonError      results that can't be compared
│   └── DifferentConditionsError  they were taken under other conditions: device, target, threads, caches
├── ExportError          a report or best log could not be written
│   ├── UnknownFormError     its name's extension is of no form that is known
│   └── NoParquetError       what writes Parquet is not installed
├── ExtensionError       a part of another package that can't be used; names the package
└── NotOwnFileError      what lies under a name of this program is not its own, such as a link; an `OSError`, too
"""

from __future__ import annotations

from collections.abc import Sequence


class ResultsError(Exception):
    """Base of every error this package raises on purpose."""


class StoreError(ResultsError):
    """The results file can't be used."""


class ForeignStoreError(StoreError):
    """The file belongs to another program, or is damaged."""


class DamagedRowError(ForeignStoreError):
    """Rows of the file are damaged; the others can be read."""


class NewerSchemaError(StoreError):
    """The file was written by a newer version of this program."""


class StoreLockedError(StoreError):
    """Another process is writing to the file."""


class StoreAwayError(StoreError):
    """The database that has the records can't be reached, or not any more."""


class StoreWriteError(StoreError):
    """A record could not be written."""


class StoreGoneError(StoreWriteError):
    """The results file was removed, or replaced by another one, while it was written."""


class UpkeepError(ResultsError):
    """Campaigns can't be joined, renamed, put aside or removed so."""


class NoSuchCampaignError(UpkeepError):
    """There is no campaign of this name."""


class BestLogError(ResultsError):
    """A best log that can't be used.

    Attributes:
        faults: one line each, `file:line: field: what, allowed`; a few hundred at most.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class RecordError(ResultsError):
    """A record that contradicts itself."""


class ComparisonError(ResultsError):
    """Results can't be compared: a file is of another kind, or says nothing of what the other one has."""


class DifferentConditionsError(ComparisonError):
    """Results were taken on other devices or targets, with other threads, or with other caches."""


class ExportError(ResultsError):
    """A report or best log could not be written."""


class UnknownFormError(ExportError):
    """The extension of a file to write is of no form that is known."""


class NoParquetError(ExportError):
    """What writes Parquet is not installed."""


class ExtensionError(ResultsError):
    """A part of another package can't be used."""


class NotOwnFileError(ResultsError, OSError):
    """What lies under a name of this program is not its own: a link, something else than a file, another user's."""
