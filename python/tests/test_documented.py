"""Every block of Python in docs/python.md runs, in the order of the page and in one folder."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/python.md"


def test_the_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib").use("agg")
    text = PAGE.read_text()
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 5
    for block in blocks:
        # A traceback shows the line of the page.
        before = text[: block.start(1)].count("\n")
        exec(compile("\n" * before + block[1], str(PAGE), "exec"), names)  # noqa: S102 (the page is ours)
    assert "spec.rt:1:20 unknown-field `embed` has no field `widht` did you mean `width`?" in capsys.readouterr().out


def test_the_notebook_is_kept_without_outputs() -> None:
    """`tests/python.sh` runs it."""
    cells = json.loads((Path(__file__).parents[1] / "rtc.ipynb").read_text())["cells"]
    assert len(cells) == 10
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code"
    )


def test_its_trackers() -> None:
    """So are those of `rtc-track`."""
    words = [sys.executable, "-m", "rtc_lang.track", "--help"]
    usage = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"rtc-track (\w+) (\w+)(.*)", PAGE.read_text())
    assert [(name, run) for name, run, _ in lines] == [("mlflow", "first"), ("wandb", "first")]
    for name, _, rest in lines:
        assert name in usage and all(word in usage for word in re.findall(r"--\w+", rest))
    assert all(word in PAGE.read_text() for word in re.findall(r"--\w+", usage) if word != "--help")


def test_its_converters(place: Path) -> None:
    """The options that the page names are those of the command."""
    usage = subprocess.run(
        [sys.executable, "-m", "rtc_lang.convert", "--help"], capture_output=True, text=True, check=True
    )
    lines = re.findall(r"python -m rtc_lang.convert (\w+) (.*)", PAGE.read_text())
    assert [name for name, _ in lines] == ["mlflow", "wandb", "aim"]
    for name, rest in lines:
        assert name in usage.stdout and all(word in usage.stdout for word in re.findall(r"--\w+", rest))
    words = [sys.executable, "-m", "rtc_lang.convert", "mlflow", "none"]
    failed = subprocess.run(words, check=False, capture_output=True, text=True)
    assert failed.returncode == 6 and "there is no such run" in failed.stderr
