"""Trainings: to their end at once, or update by update while they go on."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from .errors import BY_CODE, SpecError, Stopped
from .program import Edits, LineStream, edits, options, parsed, records
from .run import Run, load
from .spec import Spec, SpecLike, argument

if TYPE_CHECKING:
    from typing_extensions import Self

STOPPED = next(code for code, error in BY_CODE.items() if error is Stopped)


class Training:
    """A training whose updates are read while it goes on; `train(..., stream=True)` begins it.

    Each is a mapping as a line of `metrics.jsonl`. `kind` is `step` for a logged update (the columns of `Run.metrics`) and `evaluation`
    for a measured split (those of `Run.evaluations`). The training never waits for its reader. It is stopped and saved when the
    iterator is closed: by `close`, at the end of a `with`, or when a loop is left and nothing else holds the iterator."""

    def __init__(self, arguments: Sequence[object], show: bool) -> None:
        self.run: Run | None = None
        """The run after the end: finished, or stopped by `close`."""
        self.done = 0
        """Updates that were made before, of a training that is resumed."""
        self.total: int | None = None
        """The last update, if the training does not end early; none of a run that was finished before."""
        self._lines = LineStream(arguments, show)
        # The first record comes when spec, experiment and data are read.
        first = parsed(next(self._lines, ""))
        self.folder = Path(first["run"]).absolute()
        """The folder of the run."""
        if first["kind"] == "started":
            self.done, self.total = first["done"], first["total"]

    def __iter__(self) -> Training:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next record; raises what `train` raises where the training has failed."""
        while self.run is None:
            line = next(self._lines, None)
            if line is None:
                self.run = load(self.folder)
            else:
                record: dict[str, Any] = parsed(line)
                if record["kind"] in ("step", "evaluation"):
                    return record
        raise StopIteration

    def close(self) -> None:
        """Stops the training, which is saved, and waits for that; the same call of `train` resumes it. `run` is the stopped run."""
        if self.run is None:
            self._lines.close(but=STOPPED)
            self.run = load(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rtc.Training {self.folder.name}{'' if self.run is None else ', ended'}>"


@overload
def train(
    spec: SpecLike | None = None,
    experiment: str | PathLike[str] | None = None,
    *,
    stream: Literal[True],
    run: str | None = None,
    runs: str | PathLike[str] = "runs",
    seed: int | None = None,
    set_: Edits = None,
    with_: Edits = None,
    fresh: bool = False,
    quiet: bool = False,
    **more: object,
) -> Training: ...


@overload
def train(
    spec: SpecLike | None = None,
    experiment: str | PathLike[str] | None = None,
    *,
    stream: Literal[False] = False,
    run: str | None = None,
    runs: str | PathLike[str] = "runs",
    seed: int | None = None,
    set_: Edits = None,
    with_: Edits = None,
    fresh: bool = False,
    quiet: bool = False,
    **more: object,
) -> Run: ...


def train(
    spec: SpecLike | None = None,
    experiment: str | PathLike[str] | None = None,
    *,
    stream: bool = False,
    run: str | None = None,
    runs: str | PathLike[str] = "runs",
    seed: int | None = None,
    set_: Edits = None,
    with_: Edits = None,
    fresh: bool = False,
    quiet: bool = False,
    **more: object,
) -> Run | Training:
    """Trains a model, or goes on with its training, and returns the finished run; with `stream` an iterator of its updates.

    `experiment` is a YAML file or the name of a built-in experiment (`listops_smoke` without it); without a `spec` the one that it names
    is trained. `set_` edits the spec, `with_` the experiment: `with_={"optimiser.learning_rate": 0.002}`. The run lies in the folder
    `runs`; `run` names it. Other options of `rtc train` are given by name: `memory="2GB"`, `threads=1`, `device="cuda"`.

    Progress goes to `sys.stderr` unless `quiet`. An interrupt saves, then `KeyboardInterrupt` goes on; the same call resumes, and returns
    a finished run without training it again. The resumed run has the same bits."""
    named, sets = _spec(spec, set_)
    asked = options(experiment=experiment, run=run, runs=runs, seed=seed, fresh=fresh, **more)
    words = [*sets, *asked, *edits("--with", with_)]
    try:
        if stream:
            return Training(["train", *words, "--stream", "--", *named], show=not quiet)
        trained = records(["train"], [*words, "--json"], named, show=not quiet)
    except SpecError:
        # A mistake in the spec itself is told with its place.
        if spec is not None and not isinstance(spec, Spec):
            Spec(argument(spec), set_)
        raise
    return load(trained["run"])


def _spec(spec: SpecLike | None, set_: Edits) -> tuple[list[str], list[str]]:
    """The name of a spec, if there is one, and its edits."""
    if isinstance(spec, Spec):
        return [spec.argument], [*spec.edits, *edits("--set", set_)]
    return [] if spec is None else [argument(spec)], edits("--set", set_)
