"""Frames of pandas, which is asked for where the first of them is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Iterable[Mapping[str, Any]], columns: list[str] | None = None) -> DataFrame:
    """A frame with a row for each mapping. `columns` are those that it has if there is no row."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("frames need pandas: pip install 'rtc-lang[pandas]'") from error
    rows = [dict(row) for row in rows]
    return pandas.DataFrame(rows, columns=None if rows else columns)


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results with what a task measures besides (`metrics`, `numbers`) beside the rest."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        out.update(flat(value) if isinstance(value, Mapping) else {name: value})
    return out
