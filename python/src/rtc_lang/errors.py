"""One exception for every exit code of the program: the table is in docs/command.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """A problem of a spec: what, where, and what to do about it."""

    severity: str
    """`error` or `warning`."""
    code: str
    """The kind of problem; `rtc explain CODE` describes it."""
    message: str
    file: str | None
    line: int | None
    """Counted from 1."""
    column: int | None
    """Counted from 1."""
    cure: str
    """Suggestions of the program, in its words; empty where it has none."""

    @property
    def place(self) -> str:
        """`FILE:LINE:COLUMN`; empty where the problem has no place."""
        return "" if self.file is None else f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        cure = f" ({self.cure})" if self.cure else ""
        return f"{place}{self.severity}[{self.code}]: {self.message}{cure}"

    @classmethod
    def of(cls, problem: dict[str, Any]) -> Diagnostic:
        """Of a problem as `rtc check --json` prints it."""
        place = problem.get("place") or {}
        told = [problem.get("label"), *problem.get("help", [])]
        return cls(
            severity=problem["severity"],
            code=problem["code"],
            message=problem["message"],
            file=place.get("file"),
            line=place.get("line"),
            column=place.get("column"),
            cure="; ".join(text for text in told if text),
        )


class RtcError(Exception):
    """The program failed. Its message is that of the exception."""

    def __init__(self, message: str, code: int, output: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """The exit code; below 0 the signal that ended the program."""
        self.output = output
        """What it had printed to standard output by then."""


class NegativeFinding(RtcError):
    """The answer is no: `diff` with `only` found more, `fmt --check` found a file, `verify --again` found other numbers."""


class UsageError(RtcError):
    """A mistake in the arguments or in the experiment."""


class SpecError(RtcError):
    """A mistake in the spec. The message is the whole report of the program."""

    def __init__(self, message: str, code: int, output: str = "", diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message, code, output)
        self.diagnostics = list(diagnostics)
        """Every problem by itself. Errors that a spec has only inside of an experiment are in the message alone."""


class DataError(RtcError):
    """Broken data or inputs; the message has file and line."""


class NotFiniteError(RtcError):
    """A number that is not finite."""


class InputOutputError(RtcError):
    """Input or output failed, the disk is full, the run is in use, a device failed, or there is no such run."""


class RefusedError(RtcError):
    """A run or a checkpoint is damaged or belongs to another run."""


class MemoryLimitError(RtcError):
    """More memory is needed than there is, or than `memory` allows."""


class TimeLimitError(RtcError):
    """Not done after the seconds of `--time-limit`."""


class Stopped(RtcError):
    """A signal stopped the training, which is saved; the same call goes on."""


BY_CODE: dict[int, type[RtcError]] = {
    1: NegativeFinding,
    2: UsageError,
    3: SpecError,
    4: DataError,
    5: NotFiniteError,
    6: InputOutputError,
    7: RefusedError,
    8: MemoryLimitError,
    9: TimeLimitError,
    75: Stopped,
}
