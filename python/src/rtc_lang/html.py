"""Small tables of HTML for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST = 30
"""The most rows of a table."""


def page(title: str, facts: Mapping[str, object], *tables: str) -> str:
    """A title, what is known by name, and tables below it. Facts that are absent or empty are left out."""
    known = [(name, value) for name, value in facts.items() if value not in (None, "", [], ())]
    return f"<div><strong>{escape(title)}</strong>{table([], known)}{''.join(tables)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of the first rows, with the number of the others below; nothing without rows."""
    rows = list(rows)
    if not rows:
        return ""
    body = "".join(_row("td", row) for row in rows[:MOST])
    if len(rows) > MOST:
        body += f'<tr><td colspan="{max(map(len, rows))}">and {len(rows) - MOST:,} more</td></tr>'
    top = f"<thead>{_row('th', head)}</thead>" if head else ""
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{said}{top}<tbody>{body}</tbody></table>"


def records(rows: Sequence[Mapping[str, object]], caption: str = "") -> str:
    """A table with a column for each name."""
    head = list(dict.fromkeys(name for row in rows for name in row))
    return table(head, [[row.get(name) for name in head] for row in rows], caption)


def _row(kind: str, cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(shown(cell))}</{kind}>" for cell in cells) + "</tr>"


def shown(value: object) -> str:
    """A value as people read it: four digits of a fraction, thousands of a whole number apart."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def sizes(shape: object) -> str:
    """A shape as `16 × vocab`."""
    return " × ".join(map(str, shape)) if isinstance(shape, (list, tuple)) else shown(shape)
