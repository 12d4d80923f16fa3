"""What is written to files: each document in the forms that it has, one table for all of them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.results.atomic import require_folder, write_atomic, write_bytes_atomic
from int8tune.results.errors import NoParquetError
from int8tune.results.forms import Form, form_of
from int8tune.results.report.tables import Row, as_text
from int8tune.tuner.api.frames import frame_of

if TYPE_CHECKING:
    import pandas

TABLES = (Form.CSV, Form.PARQUET)


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be written; nothing of it is made before it is.

    Attributes:
        texts: by form, what makes the whole text.
        rows: what makes the rows of its table, which is CSV or Parquet.
        columns: of a table without rows.
    """

    texts: Mapping[Form, Callable[[], str]]
    rows: Callable[[], Sequence[Row]]
    columns: Sequence[str] = ()

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that it has."""
        return tuple(form for form in Form if form in self.texts or form in TABLES)

    def write(self, path: Path) -> Form:
        """Write it whole, or not at all, as the extension says.

        Raises:
            UnknownFormError: it has no such form.
            NoParquetError: pyarrow is not installed.
            ExportError: the file can't be written.
        """
        form = form_of(path, self.forms)
        require_folder(path)
        if make := self.texts.get(form):
            write_atomic(path, make())
        else:
            frame = frame_of(self.rows(), self.columns)
            write_bytes_atomic(path, _csv(frame) if form is Form.CSV else _parquet(frame))
        return form


def require_form(path: Path, known: Collection[Form]) -> Form:
    """See before the work whether what comes of it can be written, and in which form.

    Raises:
        UnknownFormError: the extension is of no known form.
        ExportError: there is no such folder.
    """
    form = form_of(path, known)
    require_folder(path)
    return form


def json_text(content: Mapping[str, Any]) -> str:
    """JSON, which says first what it is, and of which version."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _csv(frame: pandas.DataFrame) -> bytes:
    return str(frame.map(as_text).to_csv(index=False)).encode()


def _parquet(frame: pandas.DataFrame) -> bytes:
    content = io.BytesIO()
    try:
        _with_plain_columns(frame).to_parquet(content, engine="pyarrow", compression="zstd", index=False)
    except ImportError as error:
        raise NoParquetError("Parquet needs pyarrow, which is not installed") from error
    return content.getvalue()


def _with_plain_columns(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Knobs that are numbers in one template and words in another are words; objects are JSON."""
    mixed = [name for name in frame if frame[name].dtype == object and not frame[name].map(_is_list).any()]
    return frame.assign(**{name: frame[name].map(_word).astype("str") for name in mixed})


def _word(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value if value is None else str(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple)
