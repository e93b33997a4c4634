"""Runs: opened, asked and listed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import html
from .frames import flat, frame
from .program import call, lines, options, parsed, records

if TYPE_CHECKING:
    from pandas import DataFrame


class Run:
    """A run as its records were when it was opened; of one that is being trained, `load` reads the newer ones. The program has checked
    every record."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._records = found
        self.folder = Path(found["run"]).absolute()
        self.name: str = found["name"]
        """What commands call it: its folder, from `runs` where it lies there."""
        self.state: str = found["state"]
        """`finished`, `running`, `stopped` or `failed`."""
        self.begun: int = found["begun"]
        """When its experiment was written, in seconds since 1970; of a copy, when it was copied."""
        self.tags: list[str] = found["tags"]
        self.note: str | None = found["note"]
        self.config: dict[str, Any] = found["experiment"]
        """The complete experiment, defaults and edits included: `run.config["optimiser"]["learning_rate"]`."""
        self.spec: str = found["spec"]
        """The complete spec, or the graph that was trained in its place."""
        self.info: dict[str, Any] = found["info"]
        """`run.json`: hashes of spec, graph and data, versions, threads."""
        self.model: str = self.info["model"]
        self.seed: int = self.info["seed"]
        self.parameters: int = self.info["parameters"]
        """Number of trainable numbers."""
        checkpoints = {name: found["checkpoints"][name] for name in ("best", "last")}
        self.checkpoints = {name: Path(path).absolute() for name, path in checkpoints.items() if path is not None}
        """The folders of the checkpoints `best` and `last`, and of those that were kept by their updates, as `500`, which hold
        `weights.safetensors`. `checkpoint` of `eval`, `predict` and `Model` takes these names."""
        for update in found["checkpoints"].get("kept", []):
            self.checkpoints[str(update)] = self.folder / "checkpoints" / f"update-{update}"

    @property
    def checkpoint(self) -> Path | None:
        """The folder of the checkpoint that the results measure; none before the first evaluation."""
        return self.checkpoints.get("best")

    @cached_property
    def metrics(self) -> DataFrame:
        """A row for each logged update: `update` (from 1), `epoch` (from 0), `loss` (task loss plus halting cost) and `task_loss` in
        nats per answer, or squared deviations of numbers; `accuracy` between 0 and 1, `gradient_norm` before clipping,
        `learning_rate`; `mean_depth` in steps and `halting_cost`, if the model halts."""
        return frame(self.rows("updates"), ["update", "epoch", "loss", "task_loss", "gradient_norm", "learning_rate"])

    @cached_property
    def evaluations(self) -> DataFrame:
        """A row for each measured split, in the order of the training: `update`, `split`, `scored` answers, `accuracy` between 0 and 1,
        `loss`, and what the task reports besides."""
        return frame(self.rows("evaluations"), ["update", "split", "scored", "accuracy", "loss"])

    @cached_property
    def results(self) -> DataFrame:
        """The table of a finished run, empty before: a row for each split with `examples`, `scored` answers, `accuracy`, `majority`
        (always the most frequent class) and, on one's own data, the baselines `bag_of_words` or `trigram` between 0 and 1, `loss`, `mean_depth`
        in steps, and what the task reports besides."""
        return frame(self.rows("results"), ["split", "examples", "scored", "accuracy", "loss"])

    def rows(self, of: str) -> list[dict[str, Any]]:
        """The rows of `metrics` (`updates`), `evaluations` or `results` as mappings, for which pandas is not needed."""
        if of == "results":
            return [flat(row) for row in (self._records["results"] or {"splits": []})["splits"]]
        return [dict(row) for row in self._records[of]]

    def eval(
        self, *splits: str, data: str | PathLike[str] | None = None, checkpoint: str | None = None, **more: object
    ) -> DataFrame:
        """Measures the model: on splits of its task (those of its experiment without any), or on the rows of a file. Columns are those
        of `results`. Other options of `rtc eval` are given by name: `inference="flat"`, `threads=2`."""
        asked = options(split=list(splits), data=data, checkpoint=checkpoint, **more)
        return frame(map(flat, records(["eval"], [*asked, "--json"], [self.folder])["splits"]))

    def predict(
        self, inputs: Iterable[str | Mapping[str, Any] | tuple[str, str]], **more: object
    ) -> list[dict[str, Any]]:
        """What the model says of sequences, in their order: an object each with `text`, `class` (a number, a list for a class per
        token or several labels), `confidence` between 0 and 1, and `steps`.

        An input is a text; a pair of texts; or a mapping with the text and the values that the model takes from its rows. Options of
        `rtc predict` are given by name: `probabilities=True`, `top=3`, `show_halting=True`, `trees=True`, `checkpoint="last"`."""
        asked = list(inputs)
        given = [(isinstance(one, Mapping), _line(one)) for one in asked]
        # A text is never read as an object or as the header of a table, whatever it looks like.
        texts = iter(self._answers([line for is_row, line in given if not is_row], {"input_format": "lines", **more}))
        rows = iter(self._answers([line for is_row, line in given if is_row], more))
        answers = [next(rows if is_row else texts) for is_row, _ in given]
        for one, answer in zip(asked, answers, strict=True):
            if isinstance(one, str):
                answer["text"] = one
        return answers

    def _answers(self, given: Sequence[str], more: Mapping[str, object]) -> list[dict[str, Any]]:
        if not given:
            return []
        asked = options(**{"batch": 32, **more})
        answers = call(["predict"], [*asked, "--json"], [self.folder], input="\n".join(given) + "\n")
        return [parsed(answer) for answer in lines(answers)]

    def generate(self, prompts: str | Sequence[str], **more: object) -> list[dict[str, Any]]:
        """Continues texts with a language model: an object for each with `prompt`, `text` (without the prompt), `tokens` and `end`.
        Options of `rtc generate` are given by name: `length=60`, `temperature=0.8`, `top_k=20`, `seed=2`, `count=3`."""
        prompts = [prompts] if isinstance(prompts, str) else list(prompts)
        asked = options(**more)
        answers = call(["generate"], [*asked, "--json"], [self.folder, *prompts])
        return [parsed(answer) for answer in lines(answers)]

    def __fspath__(self) -> str:
        """Functions that take a folder take a run."""
        return str(self.folder)

    def __repr__(self) -> str:
        return f"<rtc.Run {self.name}: {self.model}, seed {self.seed}, {self.state}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the run, its last logged update, and its results, or dev as it was measured last."""
        updates, results = self.rows("updates"), self.rows("results")
        facts = {"model": self.model, "seed": self.seed, "state": self.state, "parameters": self.parameters}
        measured = ("results", results) if results else ("last evaluation", self.rows("evaluations")[-1:])
        tables = [("last logged update", updates[-1:]), measured]
        return html.page(
            f"run {self.name}",
            {**facts, "tags": self.tags, "note": self.note},
            *(html.records(rows, name) for name, rows in tables),
        )


def _line(given: str | Mapping[str, Any] | tuple[str, str]) -> str:
    """An input as a line of text."""
    if isinstance(given, Mapping):
        return json.dumps(given, ensure_ascii=False)
    text = given if isinstance(given, str) else "\t".join(given)
    # The program takes a carriage return at the end for that of the line.
    if not text.strip() or "\n" in text or text.endswith("\r"):
        raise ValueError(f"an input is one line with some text, and {given!r} is none")
    # On a line a backslash begins an escape.
    return text.replace("\\", "\\\\")


def load(run: str | PathLike[str]) -> Run:
    """Opens a run: its folder, its name below `runs`, or `@last`. Raises `RefusedError` if it is damaged."""
    found = records(["runs", "records"], [], [run])
    if "grid" in found:
        raise ValueError(f"{run} is a grid: `load_grid` opens it")
    return Run(found)


def runs(
    *folders: str | PathLike[str],
    where: str | Sequence[str] = (),
    sort: str | Sequence[str] = (),
    columns: Sequence[str] = (),
) -> DataFrame:
    """The runs below `runs`, or below these folders: a row each.

    `where` holds conditions, all of which must hold: `["state=finished", "score>0.5", "optimiser.learning_rate<=0.001"]`; `sort` is the
    order, `-score` the best first; `columns` are fields of docs/runs.md and settings of experiments by their paths. `score` is between
    0 and 1 where `measure` is `accuracy`, `age` is in seconds, `size` in bytes. A damaged run is a row whose `state` and `why` say so."""
    wheres = [where] if isinstance(where, str) else list(where)
    order = sort if isinstance(sort, str) else ",".join(sort)
    asked = [*(f"--where={one}" for one in wheres), *([f"--sort={order}"] if order else [])]
    shown = options(columns=",".join(columns) or None)
    listed = records(["runs"], [*asked, *shown, "--json"], folders)["runs"]
    return frame(listed, list(columns) or ["name", "model", "seed", "state", "score", "folder"])
