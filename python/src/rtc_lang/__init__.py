"""rtc, the recurrent-transformer compiler, from Python.

The package runs the program `rtc` and reads what it prints, so every record of a run is checked as on the command line, and every
number is the same. `compile` reads a spec, `train` trains it, `load` opens a run, `runs` lists them, `ablate` compares models, and
`Model` answers batches.
"""

from .errors import (
    DataError,
    Diagnostic,
    InputOutputError,
    MemoryLimitError,
    NegativeFinding,
    NotFiniteError,
    RefusedError,
    RtcError,
    SpecError,
    Stopped,
    TimeLimitError,
    UsageError,
)
from .grid import Grid, ablate, load_grid
from .model import Model
from .program import command, program, version
from .run import Run, load, runs
from .spec import Spec, compile, cost, diff
from .training import Training, train

__all__ = [
    "DataError",
    "Diagnostic",
    "Grid",
    "InputOutputError",
    "MemoryLimitError",
    "Model",
    "NegativeFinding",
    "NotFiniteError",
    "RefusedError",
    "RtcError",
    "Run",
    "Spec",
    "SpecError",
    "Stopped",
    "TimeLimitError",
    "Training",
    "UsageError",
    "ablate",
    "command",
    "compile",
    "cost",
    "diff",
    "load",
    "load_grid",
    "program",
    "runs",
    "train",
    "version",
]
