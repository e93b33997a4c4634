"""The program: which one runs, and large inputs and outputs."""

import subprocess
import sys
from pathlib import Path

import pytest

import rtc_lang as rtc


def test_the_version_is_that_of_the_program() -> None:
    assert rtc.version().startswith("rtc ") and "(code " in rtc.version()
    asked = subprocess.run([sys.executable, "-m", "rtc_lang", "--version"], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == rtc.version()


def test_any_command_can_be_run(place: Path) -> None:
    assert "threshold" in rtc.command("explain", "halt", "global")
    assert rtc.command("fmt", "-", input=Path("tiny.rt").read_text()) == Path("tiny.rt").read_text()


def test_pipes_that_are_full_block_nothing(trained: rtc.Run) -> None:
    """More goes in and comes out than a pipe holds, both at once."""
    many = ["[MAX 2 9 [MIN 4 7 ] 0 ]"] * 5000
    answers = trained.predict(many, probabilities=True)
    assert len(answers) == len(many) and len({answer["class"] for answer in answers}) == 1


def test_an_input_that_is_not_read_to_its_end_is_no_failure_of_its_own(trained: rtc.Run) -> None:
    with pytest.raises(rtc.DataError, match="1: `x`"):
        trained.predict(["x"] * 200_000)
