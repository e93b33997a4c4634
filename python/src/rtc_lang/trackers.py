"""Runs in the stores of other programs: the names that they have there, and a writer for each store.

A run there has the name of the run here, its complete experiment as parameters, every logged update as `train/MEASURE`, every evaluation
as `SPLIT/MEASURE`, and the table of a finished run as `results/SPLIT/MEASURE`; steps are updates. It is found again by the identity of the
run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from .errors import RtcError
from .run import Run

Points: TypeAlias = dict[int, dict[str, float]]
"""Measures by their names, by update."""


def settings(run: Run) -> dict[str, Any]:
    """The complete experiment by paths (`optimiser.learning_rate`), and what tells the run from others."""
    told = {name: run.info[name] for name in ("model", "seed", "parameters", "spec_hash", "graph_hash")}
    return {**told, **dict(_paths(run.config, ""))}


def _paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paths(inner, f"{path}.{name}" if path else name)
    elif value is not None:
        yield path, value


def history(run: Run) -> Points:
    """What was measured, by update, in the order of the updates."""
    found: Points = {}
    rows = [("train", row) for row in run.rows("updates")] + [(row["split"], row) for row in run.rows("evaluations")]
    for group, row in rows:
        found.setdefault(row["update"], {}).update(_measures(group, row, "update"))
    return dict(sorted(found.items()))


def results(run: Run) -> dict[str, float]:
    """The table of a finished run."""
    rows = [_measures(f"results/{row['split']}", row) for row in run.rows("results")]
    return {name: value for row in rows for name, value in row.items()}


def _measures(group: str, row: Mapping[str, Any], *but: str) -> dict[str, float]:
    """The numbers of a row by the names that they have in a store."""
    numbers = {name: value for name, value in row.items() if type(value) in (int, float) and name not in but}
    return {f"{group}/{name}": value for name, value in numbers.items()}


class Store(ABC):
    """A run in the store of another program. With `replace` it begins empty, else it keeps the points that it has."""

    takes_late = True
    """Whether a measure can be added to an update after one of a later update."""
    told: str
    """Where the run is, for people."""

    def __init__(self) -> None:
        self.known: set[tuple[int, str]] = set()
        """Updates and names of the points that the store has."""

    def log(self, points: Points) -> int:
        """Adds the points that the store does not have, in the order of their updates; returns how many these are."""
        new: Points = {}
        for step, found in points.items():
            if measures := {name: value for name, value in found.items() if (step, name) not in self.known}:
                new[step] = measures
        if new:
            self.write(new)
            self.known.update((step, name) for step, found in new.items() for name in found)
        return sum(map(len, new.values()))

    @abstractmethod
    def write(self, points: Points) -> None:
        """Writes points that the store does not have."""

    @abstractmethod
    def end(self, run: Run) -> None:
        """Adds the results of a run that has ended, and closes it."""

    @abstractmethod
    def leave(self) -> None:
        """Closes a run that goes on."""


class MlflowStore(Store):
    """In the tracking store `place` (a URI; that of the environment without it), experiment `project`."""

    def __init__(self, run: Run, project: str, place: str | None, replace: bool) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        super().__init__()
        self._client = MlflowClient(tracking_uri=place)
        experiment = self._client.get_experiment_by_name(project)
        store = experiment.experiment_id if experiment else self._client.create_experiment(project)
        found = list(self._client.search_runs([store], f"tags.`rtc.run` = '{run.info['run']}'"))
        if replace:
            for old in found:
                self._client.delete_run(old.info.run_id)
        self._begun = 1000 * run.begun if replace else None
        if found and not replace:
            self._key = found[0].info.run_id
            self._client.update_run(self._key, status="RUNNING")
            for name in found[0].data.metrics:
                self.known.update((one.step, name) for one in self._client.get_metric_history(self._key, name))
        else:
            tags = {"rtc.run": run.info["run"]}
            made = self._client.create_run(store, start_time=1000 * run.begun, tags=tags, run_name=run.name)
            self._key = made.info.run_id
            # A store takes so many at a time.
            for part in _parts([Param(name, str(value)) for name, value in settings(run).items()], 100):
                self._client.log_batch(self._key, params=part)
            self._client.log_text(self._key, run.spec, "spec.rt")
            self._client.log_dict(self._key, run.config, "experiment.yaml")
        self.told = f"run {self._key} of the experiment {project}"

    def write(self, points: Points) -> None:
        from mlflow.entities import Metric

        moment = self._begun if self._begun is not None else int(1000 * time.time())
        rows = [Metric(name, value, moment, step) for step, found in points.items() for name, value in found.items()]
        for part in _parts(rows, 1000):
            self._client.log_batch(self._key, metrics=part)

    def end(self, run: Run) -> None:
        from mlflow.entities import RunTag

        self.log({max(history(run), default=0): results(run)})
        tags = {"rtc.state": run.state, "rtc.tags": ",".join(run.tags), "mlflow.note.content": run.note or ""}
        self._client.log_batch(self._key, tags=[RunTag(name, value) for name, value in tags.items() if value])
        self._client.set_terminated(self._key, "FINISHED" if run.state == "finished" else "KILLED")

    def leave(self) -> None:
        pass


def _parts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


class WandbStore(Store):
    """Into the project `project`; `place` is the folder of the files of W&B. `WANDB_MODE=offline` needs no account."""

    takes_late = False

    def __init__(self, run: Run, project: str, place: str | None, replace: bool) -> None:
        import wandb

        super().__init__()
        self._made = wandb.init(
            project=project,
            name=run.name,
            id=run.info["run"][:32],
            dir=place,
            config=settings(run),
            tags=run.tags or None,
            notes=run.note,
            resume=None if replace else "allow",
            settings=wandb.Settings(console="off", x_disable_stats=True, disable_code=True, silent=True),
        )
        # Offline files are uploaded later, one after the other: what stands in those before is noted beside them.
        self._noted = Path(self._made.dir).parents[1] / f"rtc-{self._made.id}.json" if self._made.offline else None
        self._next = 0 if replace else self._note() if self._noted else self._made.starting_step
        self.told = f"run {self._made.id} of the project {project}, files in {self._made.dir}"

    def _note(self) -> int:
        """The first step that earlier files do not have."""
        assert self._noted is not None
        notes = json.loads(self._noted.read_text()) if self._noted.exists() else {}
        return int(notes.get(self._made.project, 0))

    def log(self, points: Points) -> int:
        return super().log({step: found for step, found in points.items() if step >= self._next})

    def write(self, points: Points) -> None:
        for step, found in points.items():
            self._made.log(found, step=step, commit=True)
            self._next = step + 1
        if self._noted is not None:
            notes = json.loads(self._noted.read_text()) if self._noted.exists() else {}
            part = self._noted.with_suffix(".part")
            part.write_text(json.dumps({**notes, self._made.project: self._next}))
            part.replace(self._noted)

    def end(self, run: Run) -> None:
        self._made.summary.update(results(run))
        self._made.finish()

    def leave(self) -> None:
        self._made.finish()


class AimStore(Store):
    """Into the repository `place` (the current folder without it), experiment `project`."""

    def __init__(self, run: Run, project: str, place: str | None, replace: bool) -> None:
        from aim.sdk.repo import Repo
        from aim.sdk.run import Run as AimRun
        from aim.sdk.types import QueryReportMode

        super().__init__()
        repo = Repo.from_path(place or ".", init=True)
        # Aim makes the keys of runs itself.
        query = f"run.rtc.run == '{run.info['run']}'"
        found = [old.run.hash for old in repo.query_runs(query, report_mode=QueryReportMode.DISABLED).iter_runs()]
        if replace:
            for old in found:
                repo.delete_run(old)
        self._made = AimRun(
            run_hash=found[0] if found and not replace else None,
            repo=repo,
            experiment=project,
            system_tracking_interval=None,
            log_system_params=False,
            capture_terminal_logs=False,
        )
        for metric in self._made.metrics():
            name = f"{metric.context['subset']}/{metric.name}"
            self.known.update((int(step), name) for step in metric.data.numpy()[0])
        self._made.name = run.name
        self._made["rtc"] = {"run": run.info["run"], **settings(run)}
        self.told = f"run {self._made.hash} of the experiment {project}"

    def write(self, points: Points) -> None:
        for step, found in points.items():
            for name, value in found.items():
                subset, measure = name.split("/", 1)
                self._made.track(value, name=measure, step=step, context={"subset": subset})

    def end(self, run: Run) -> None:
        self._made["rtc"] = {"run": run.info["run"], **settings(run), **results(run)}
        for tag in run.tags:
            self._made.add_tag(tag)
        self._made.close()

    def leave(self) -> None:
        self._made.close()


STORES: dict[str, Callable[[Run, str, str | None, bool], Store]] = {
    "mlflow": MlflowStore,
    "wandb": WandbStore,
    "aim": AimStore,
}


def parser(prog: str, description: str) -> argparse.ArgumentParser:
    """The arguments of programs that write into a store."""
    found = argparse.ArgumentParser(prog=prog, description=description)
    found.add_argument(
        "to", choices=STORES, help="the program whose store is written; pip install 'rtc-lang[NAME]' installs it"
    )
    found.add_argument("--project", default="rtc", help="the experiment or project there (rtc)")
    found.add_argument(
        "--place", help="MLflow: the URI of the store; W&B: the folder of its files; Aim: the repository"
    )
    return found


def guarded(to: str, work: Callable[[], int]) -> int:
    """Does the work; the exit code is that of the program where a run can't be read."""
    try:
        return work()
    except RtcError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except ImportError as error:
        print(f"error: {error}: pip install 'rtc-lang[{to}]'", file=sys.stderr)
        return 2
