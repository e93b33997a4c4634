"""A folder with a tiny model and a tiny experiment, in which every test runs the real program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rtc_lang as rtc

SPEC = """\
/// A gated model that halts, as small as it gets.
model tiny {
    dropout: 0.1
    embed { width: 16, tokens: start_end }
    recur depthwise {
        depth: 3
        halt global { sees: transition, threshold: 0.999, cost: 0.1 }
        gate mlp { hidden: 16 }
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
    }
    readout end
}

variant no_gate of tiny { gate none }
"""

EXPERIMENT = """\
task:
  name: listops
  options: { train_length: 12, held_out_length: 12, depth: 4, arguments: 3 }
  sizes: { train: 160, dev: 32, test: 32 }
optimiser: { learning_rate: 0.003, clip: 1 }
schedule: { kind: constant, warmup: 5 }
batch: { size: 16 }
epochs: 4
log_every: 1
evaluate: [test]
compare: [tiny, "tiny:no_gate"]
"""


def furnish(folder: Path) -> None:
    """Writes the model and the experiment."""
    (folder / "tiny.rt").write_text(SPEC)
    (folder / "tiny.yaml").write_text(EXPERIMENT)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, which is the current one."""
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> rtc.Run:
    """The tiny model, trained: 40 updates, 4 evaluations on dev. Tests only read it."""
    folder = tmp_path_factory.mktemp("trained")
    furnish(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        rtc.train("tiny.rt", "tiny.yaml", run="tiny", quiet=True)
        return rtc.load(folder / "runs" / "tiny")
    finally:
        os.chdir(before)
