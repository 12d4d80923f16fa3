"""Types of columns that mean the same in every database."""

from __future__ import annotations

from sqlalchemy import BigInteger, Dialect, Integer, Text, TypeDecorator

_NUL, _MARK = "\0", "\N{SYMBOL FOR NULL}"


class AnyText(TypeDecorator[str]):
    """A text of any characters. PostgreSQL keeps all but NUL, for which a mark stands."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or dialect.name != "postgresql":
            return value
        return value.replace(_MARK, f"{_MARK}1").replace(_NUL, f"{_MARK}0")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or dialect.name != "postgresql" or _MARK not in value:
            return value
        return value.replace(f"{_MARK}0", _NUL).replace(f"{_MARK}1", _MARK)


INTEGER = Integer().with_variant(BigInteger(), "postgresql")
"""64 bits, as SQLite's have."""
TEXT = Text().with_variant(AnyText(), "postgresql")
