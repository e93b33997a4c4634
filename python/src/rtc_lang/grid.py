"""Grids: models times seeds, and their table."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import html
from .frames import frame
from .program import Edits, edits, options, records
from .run import Run, load

if TYPE_CHECKING:
    from pandas import DataFrame


MEANS = "means ± sample deviations over the seeds; shares are between 0 and 1"


class Grid:
    """A comparison of models, as its runs were when it was opened."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._records = found
        self.folder = Path(found["grid"]).absolute()
        self._place = Path.cwd()
        table = found["table"]
        self.caption: str = table["caption"]
        """What the numbers of `table` are."""
        self.baseline: str | None = table["baseline"]
        """The row that the others are compared with."""
        self.notes: list[str] = table["notes"]
        """What must be known of rows: failures, other data, other programs."""
        self.remarks: list[str] = table["remarks"]
        """How intervals and p-values were computed."""

    @cached_property
    def cells(self) -> DataFrame:
        """A row for each model and seed: `row`, `seed`, `run` (its folder), `state` (`finished`, `unfinished`, `failed`, `stopped` by
        halving, `absent`), `parameters`, and every measure of every split as `SPLIT.MEASURE`; shares are between 0 and 1."""
        rows = []
        for model in self._records["models"]:
            for cell in model["cells"]:
                splits = cell.get("results", {}).get("splits", {})
                measures = {
                    f"{split}.{name}": value for split, found in splits.items() for name, value in found.items()
                }
                same = {"row": model["model"], "parameters": model["parameters"]}
                rows.append({**same, "seed": cell["seed"], "state": cell["state"], "run": cell["run"], **measures})
        return frame(rows, ["row", "parameters", "seed", "state", "run"])

    @cached_property
    def table(self) -> DataFrame:
        """A row for each model and column of the table: `row`, `column`, `mean` and sample `deviation` over the seeds, whether it is the
        `best`, its 95 % interval (`low`, `high`), the `difference` to the baseline with its interval (`difference_low`,
        `difference_high`), and the p-values over seeds and over examples. Shares are between 0 and 1. docs/statistics.md says what a
        difference is worth."""
        rows = []
        for line in self._records["table"]["rows"]:
            for column, found in line["values"].items():
                numbers = {name: value for name, value in found.items() if "interval" not in name}
                for name, prefix in [("interval", ""), ("difference_interval", "difference_")]:
                    ends = found.get(name) or {}
                    numbers.update({f"{prefix}low": ends.get("low"), f"{prefix}high": ends.get("high")})
                rows.append({"row": line["name"], "column": column, **numbers})
        return frame(rows, ["row", "column", "mean", "deviation"])

    @cached_property
    def means(self) -> DataFrame:
        """The means of `table`: a row for each model, a column for each of the table."""
        lines = self._records["table"]["rows"]
        means = [{column: found["mean"] for column, found in line["values"].items()} for line in lines]
        return frame(means).set_axis([line["name"] for line in lines])

    def runs(self) -> list[Run]:
        """The runs of the cells that have begun, in the order of `cells`; those that several rows share come once."""
        cells = [cell for model in self._records["models"] for cell in model["cells"] if cell["state"] != "absent"]
        folders = [self._place / cell["run"] for cell in cells]
        # A cell that failed may have none.
        return [load(folder) for folder in dict.fromkeys(folders) if (folder / "run.json").exists()]

    def _repr_html_(self) -> str:
        """What a notebook shows: the means with their deviations, and how far the cells are."""
        table = self._records["table"]
        states = [cell["state"] for model in self._records["models"] for cell in model["cells"]]
        facts = {
            "cells": ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)),
            "baseline": self.baseline,
        }
        columns = table["columns"]
        rows = [[line["name"], *(_mean(line["values"].get(column)) for column in columns)] for line in table["rows"]]
        notes = html.table([], [[note] for note in self.notes], "notes")
        return html.page(f"grid {self.folder.name}", facts, html.table(["", *columns], rows, MEANS), notes)

    def __repr__(self) -> str:
        cells = [cell["state"] for model in self._records["models"] for cell in model["cells"]]
        return f"<rtc.Grid {self.folder}: {cells.count('finished')} of {len(cells)} cells are finished>"


def _mean(found: dict[str, Any] | None) -> str:
    """A mean with its sample deviation over the seeds."""
    mean, deviation = (found or {}).get("mean"), (found or {}).get("deviation")
    return html.shown(mean) if deviation is None else f"{html.shown(mean)} ± {html.shown(deviation)}"


def ablate(
    experiment: str | PathLike[str],
    *,
    set_: Edits = None,
    with_: Edits = None,
    train: bool = True,
    quiet: bool = False,
    **more: object,
) -> Grid:
    """Trains every model of an experiment's `compare` with every seed, or goes on with that, and returns the grid.

    `experiment` is a YAML file or the name of a built-in experiment. `set_` edits every model, `with_` the experiment: `with_={"seeds": [1, 2]}`.
    With `train=False` nothing is trained, and the grid is as far as it is. Other options of `rtc ablate` are given by name: `jobs=2`,
    `baseline="gut"`, `metric=["loss"]`, `grid="NAME"`, `runs="DIR"`.

    Progress goes to `sys.stderr` unless `quiet`. An interrupt saves, and the same call resumes. If a cell fails, the exception is that of the first
    failed one after all others are trained; `load_grid` opens what there is."""
    asked = options(table=not train, **more)
    words = [*edits("--set", set_), *edits("--with", with_), *asked, "--json"]
    return Grid(records(["ablate"], words, [experiment], show=not quiet))


def load_grid(folder: str | PathLike[str]) -> Grid:
    """Opens a grid by its folder, or its name below `runs`, without its experiment: the rows are those of its last `ablate`. Raises
    `RefusedError` if a run in it is damaged. Rows that halving has stopped are `unfinished` here: only the experiment knows of it."""
    found = records(["runs", "records"], [], [folder])
    if "grid" not in found:
        raise ValueError(f"{folder} is a run: `load` opens it")
    return Grid(found)
