"""Frames of pandas, which is asked for where the first of them is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Iterable[Mapping[str, Any]], columns: list[str] | None = None) -> DataFrame:
    """A frame with a row for each mapping. `columns` are those that it has if there is no row.

    Whole numbers stay whole where some rows have none (`Int64` of pandas)."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("frames need pandas: pip install 'rtc-lang[pandas]'") from error
    rows = [dict(row) for row in rows]
    made = pandas.DataFrame(rows, columns=None if rows else columns)
    whole = [name for name in made.columns if _is_whole([row.get(name) for row in rows])]
    return made.astype(dict.fromkeys(whole, "Int64")) if whole else made


def _is_whole(values: list[Any]) -> bool:
    """Whether some values are absent, and all others are whole numbers."""
    there = [value for value in values if value is not None]
    return len(there) < len(values) and bool(there) and all(type(value) is int for value in there)


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results with what a task measures besides (`metrics`, `numbers`) beside the rest."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        out.update(flat(value) if isinstance(value, Mapping) else {name: value})
    return out


def whole(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose whole numbers are integers: the program computes counts of costs by formulas, as fractions."""
    return {name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in row.items()}
