"""Specs: compiled, measured and compared."""

from __future__ import annotations

from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from . import html
from .errors import Diagnostic, SpecError
from .frames import frame, whole
from .program import Edits, call, edits, options, parsed, stored

if TYPE_CHECKING:
    from pandas import DataFrame


class Spec:
    """A spec without errors, as `compile` returns it."""

    name: str
    """Of the model or variant: `gut`, or `gut:no_gate`."""
    hash: str
    """Of the complete spec, edits included; the records of a run have it as `spec_hash`."""
    doc: str
    """The comment that describes it."""
    warnings: list[Diagnostic]

    def __init__(self, argument: str, set_: Edits = None, task: str | None = None) -> None:
        self.argument = argument
        """What the command line is given."""
        self.edits = edits("--set", set_)
        """The edits, as the command line is given them."""
        self.task = task
        self.warnings = self._check()
        shown = parsed(self._command("show", "--json"))
        self.name, self.hash, self.doc = shown["name"], shown["hash"], shown.get("doc", "")

    @cached_property
    def graph(self) -> str:
        """The forward graph as the program prints it, which `rtc` also takes in the place of a spec: docs/ir.md describes it."""
        return self.stage("graph")

    @cached_property
    def text(self) -> str:
        """The complete spec, defaults and edits included."""
        return self.stage("spec")

    @cached_property
    def parameters(self) -> int:
        """Number of trainable numbers. Without a task its vocabulary and classes count as 1."""
        [model] = parsed(self._command("cost", "--json"))
        figures = model["figures"][0]
        return int(figures["parameters"] + figures["embedding"])

    @cached_property
    def weights(self) -> DataFrame:
        """Every parameter by name: shape, how it starts, and how many numbers it has. Without a task the sizes that only a task
        gives are names in `shape`, and `numbers` is missing."""
        return frame(self._weights)

    @cached_property
    def _weights(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = parsed(self._command("show", "--parameters", "--json"))["parameters"]
        return found

    def stage(self, name: str, *, inference: bool = False) -> str:
        """A stage of compilation as text: `spec`, `graph`, `grad`, `optimised`, `plan`, `causality`, `yaml`, `json`, `dot`,
        `mermaid`. With `inference` it is the optimised forward pass without dropout."""
        return self._command("compile", *options(emit=name, inference=inference))

    def cost(self, *, length: int | list[int] = 100, batch: int = 32, depth: float | None = None) -> DataFrame:
        """As the function `cost`, of this model."""
        return cost(self, length=length, batch=batch, depth=depth)

    def __repr__(self) -> str:
        return f"<rtc.Spec {self.name}, {self.parameters:,} parameters, spec {self.hash[:12]}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the model, and its parameters by name."""
        facts = {"about": self.doc, "parameters": self.parameters, "task": self.task, "spec": self.hash[:12]}
        rows = [(row["name"], html.sizes(row["shape"]), row.get("numbers")) for row in self._weights]
        said = html.table([], [[str(warning)] for warning in self.warnings], "warnings")
        return html.page(f"spec {self.name}", facts, said, html.table(["weight", "shape", "numbers"], rows))

    def _command(self, name: str, *asked: str) -> str:
        return call([name], [*self.edits, *options(task=self.task), *asked], [self.argument])

    def _check(self) -> list[Diagnostic]:
        """The warnings; errors are raised, each by itself and as the report for people."""
        try:
            [checked] = parsed(self._command("check", "--json"))
        except SpecError as error:
            [checked] = parsed(error.output)
            found = [Diagnostic.of(problem) for problem in checked["problems"]]
            try:
                self._command("check")
            except SpecError as report:
                raise SpecError(report.message, report.code, report.output, found) from None
            raise
        return [Diagnostic.of(problem) for problem in checked["problems"]]


SpecLike: TypeAlias = Union[Spec, str, "PathLike[str]"]
"""A compiled spec; or `file.rt`, `file.rt:variant`, a graph `file.rtir`, the name of a built-in spec (`gut:no_gate`), or the text of
a spec, which has a `{` in it."""


def argument(spec: str | PathLike[str], variant: str | None = None) -> str:
    """What the command line is given for a spec."""
    text = fspath(spec)
    if isinstance(spec, str) and "{" in spec:
        text = str(stored(spec))
    return text if variant is None else f"{text}:{variant}"


def compile(
    spec: str | PathLike[str], *, variant: str | None = None, set_: Edits = None, task: str | None = None
) -> Spec:
    """Checks and compiles a spec: a text (it has a `{`), a path, or the name of a built-in one.

    `variant` is a variant in it, `set_` edits it (`{"depthwise.depth": 20}`, or `["halt none"]`), `task` gives it the vocabulary and
    the classes of a task. A text has no folder, so it can `use` no other file.

    Raises `SpecError` with every mistake (`diagnostics`: place, message, cure)."""
    return Spec(argument(spec, variant), set_, task)


def cost(
    *specs: SpecLike,
    length: int | list[int] = 100,
    batch: int = 32,
    depth: float | None = None,
    task: str | None = None,
) -> DataFrame:
    """What models cost: a row for each model and length.

    `length` is the number of tokens of the rows, `batch` how many rows there are, `depth` the mean number of steps of recurrences that
    halt (their bound without it). `parameters` are those outside of the `embedding`. The columns `forward`, `training` and `again` (computed again in the backward run) are operations for
    the whole batch, a multiplication and an addition being two; `depth` is the number of sequential steps; columns with `memory`, and
    `training_total` with weights and moments, are bytes."""
    lengths = ",".join(map(str, length if isinstance(length, list) else [length]))
    rows = []
    for spec in specs:
        found = spec if isinstance(spec, Spec) else Spec(argument(spec), task=task)
        asked = options(length=lengths, batch=batch, depth=depth)
        [model] = parsed(found._command("cost", *asked, "--json"))
        rows += [{"model": model["model"], **whole(figures)} for figures in model["figures"]]
    return frame(rows)


def diff(a: SpecLike, b: SpecLike, *, only: str | None = None, task: str | None = None) -> str:
    """What differs between the graphs of two specs, as the program prints it; of two runs (their names or folders) what differs in specs,
    experiments, data, programs and results. With `only` (a slot, as `gate`) it is an assertion: `NegativeFinding` is raised if
    anything else differs."""
    first, second = (_whole(x) if isinstance(x, Spec) else argument(x) for x in (a, b))
    return call(["diff"], options(only=only, task=task), [first, second])


def _whole(spec: Spec) -> str:
    """A spec without edits: `rtc diff` makes the same edits on both sides."""
    return str(stored(spec.text, spec.name)) if spec.edits else spec.argument
