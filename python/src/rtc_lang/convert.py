"""`python -m rtc_lang.convert mlflow|wandb|aim RUN...`: runs in the stores of other programs.

A run there has the name of the run here, its complete experiment as parameters, every logged update as `train/MEASURE`, every evaluation
as `SPLIT/MEASURE`, and the table of a finished run as `results/SPLIT/MEASURE`; steps are updates. It is found again by the identity of the
run, and replaced: so a run may be converted once more when it has gone on.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import RtcError
from .run import Run, load

if TYPE_CHECKING:
    from pandas import DataFrame


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


def history(run: Run) -> dict[int, dict[str, float]]:
    """What was measured, by update, in the order of the updates."""
    found: dict[int, dict[str, float]] = {}
    for row in _rows(run.metrics):
        measures = {f"train/{name}": value for name, value in row.items() if name != "update"}
        found.setdefault(int(row["update"]), {}).update(measures)
    for row in _rows(run.evaluations):
        measures = {f"{row['split']}/{name}": value for name, value in row.items() if name not in ("update", "split")}
        found.setdefault(int(row["update"]), {}).update(measures)
    return dict(sorted(found.items()))


def results(run: Run) -> dict[str, float]:
    """The table of a finished run."""
    rows = _rows(run.results)
    return {f"results/{row['split']}/{name}": value for row in rows for name, value in row.items() if name != "split"}


def _rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """The rows, each with the numbers that it has."""
    for row in frame.to_dict("records"):
        yield {str(name): value for name, value in row.items() if value is not None and not _is_nan(value)}


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def to_mlflow(run: Run, project: str, place: str | None) -> str:
    """Into the tracking store `place` (a URI; that of the environment without it), experiment `project`."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name(project)
    store = experiment.experiment_id if experiment else client.create_experiment(project)
    identity = run.info["run"]
    for old in client.search_runs([store], f"tags.`rtc.run` = '{identity}'"):
        client.delete_run(old.info.run_id)
    begun = 1000 * run.begun
    made = client.create_run(store, start_time=begun, run_name=run.name)
    key = made.info.run_id
    # A store takes so many at a time.
    params = [Param(name, str(value)) for name, value in settings(run).items()]
    for part in _parts(params, 100):
        client.log_batch(key, params=part)
    steps = {**history(run)}
    last = max(steps, default=0)
    steps[last] = {**steps.get(last, {}), **results(run)}
    metrics = [Metric(name, value, begun, step) for step, found in steps.items() for name, value in found.items()]
    for part in _parts(metrics, 1000):
        client.log_batch(key, metrics=part)
    tags = {
        "rtc.run": identity,
        "rtc.state": run.state,
        "rtc.tags": ",".join(run.tags),
        "mlflow.note.content": run.note or "",
    }
    client.log_batch(key, tags=[RunTag(name, value) for name, value in tags.items() if value])
    client.log_text(key, run.spec, "spec.rt")
    client.log_dict(key, run.config, "experiment.yaml")
    client.set_terminated(key, "FINISHED" if run.state == "finished" else "KILLED")
    return f"run {key} of the experiment {project}"


def _parts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


def to_wandb(run: Run, project: str, place: str | None) -> str:
    """Into the project `project`; `place` is the folder of the files of W&B. `WANDB_MODE=offline` needs no account."""
    import wandb

    made = wandb.init(
        project=project,
        name=run.name,
        id=run.info["run"][:32],
        dir=place,
        config=settings(run),
        tags=run.tags or None,
        notes=run.note,
        settings=wandb.Settings(console="off", x_disable_stats=True, disable_code=True, silent=True),
    )
    for step, found in history(run).items():
        made.log(found, step=step)
    made.summary.update(results(run))
    made.finish()
    return f"run {made.id} of the project {project}, files in {made.dir}"


def to_aim(run: Run, project: str, place: str | None) -> str:
    """Into the repository `place` (the current folder without it), experiment `project`."""
    from aim.sdk.repo import Repo
    from aim.sdk.run import Run as AimRun
    from aim.sdk.types import QueryReportMode

    repo = Repo.from_path(place or ".", init=True)
    identity = run.info["run"]
    # Aim makes the keys of runs itself.
    for old in list(repo.query_runs(f"run.rtc.run == '{identity}'", report_mode=QueryReportMode.DISABLED).iter_runs()):
        repo.delete_run(old.run.hash)
    made = AimRun(
        repo=repo,
        experiment=project,
        system_tracking_interval=None,
        log_system_params=False,
        capture_terminal_logs=False,
    )
    made.name = run.name
    made["rtc"] = {"run": identity, **settings(run), **results(run)}
    for tag in run.tags:
        made.add_tag(tag)
    for step, found in history(run).items():
        for name, value in found.items():
            subset, measure = name.split("/", 1)
            made.track(value, name=measure, step=step, context={"subset": subset})
    made.close()
    return f"run {made.hash} of the experiment {project}"


CONVERTERS: dict[str, Callable[[Run, str, str | None], str]] = {"mlflow": to_mlflow, "wandb": to_wandb, "aim": to_aim}


def main(words: list[str] | None = None) -> int:
    """Converts runs; the exit code is that of the program where a run can't be read."""
    parser = argparse.ArgumentParser(
        prog="python -m rtc_lang.convert", description="Writes runs into the stores of other programs."
    )
    parser.add_argument(
        "to", choices=CONVERTERS, help="the program whose store is written; pip install 'rtc-lang[NAME]' installs it"
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run, its name below `runs`, or @last")
    parser.add_argument("--project", default="rtc", help="the experiment or project there (rtc)")
    parser.add_argument(
        "--place", help="MLflow: the URI of the store; W&B: the folder of its files; Aim: the repository"
    )
    asked = parser.parse_args(words)
    try:
        for named in asked.runs:
            run = load(named)
            print(f"{run.name}: {CONVERTERS[asked.to](run, asked.project, asked.place)}")
    except RtcError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except ImportError as error:
        print(f"error: {error}: pip install 'rtc-lang[{asked.to}]'", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
