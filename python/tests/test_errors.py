"""Every documented exit code is an exception of its own, and each comes from a real failure."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

import rtc_lang as rtc
from rtc_lang.errors import BY_CODE

DOCS = Path(__file__).parents[2] / "docs"


def codes(page: str) -> set[int]:
    """The exit codes of a table."""
    return {int(code) for code in re.findall(r"^\| (\d+) \|", (DOCS / page).read_text(), re.MULTILINE)}


def test_the_classes_are_those_of_the_table() -> None:
    assert codes("command.md") == {0, *BY_CODE} and codes("python.md") == set(BY_CODE)
    assert {error.__name__ for error in BY_CODE.values()} <= set(rtc.__all__)


def test_failures_have_their_classes(place: Path, trained: rtc.Run) -> None:
    diverging = {"optimiser.learning_rate": 1e38, "optimiser.clip": None}
    for error, call, says in [
        (rtc.UsageError, lambda: rtc.train("gutt", quiet=True), "did you mean `gut`?"),
        (rtc.UsageError, lambda: rtc.train("tiny.rt", "tiny.yaml", with_={"epoch": 3}, quiet=True), "epoch"),
        (rtc.SpecError, lambda: rtc.compile("tiny.rt", set_=["gate nono"]), "nono"),
        (rtc.DataError, lambda: trained.predict(["[MAX 2 9 ]", "[MAX x ]"]), "2: `x` is no symbol"),
        (rtc.NotFiniteError, lambda: rtc.train("tiny.rt", "tiny.yaml", with_=diverging, quiet=True), "update"),
        (rtc.InputOutputError, lambda: rtc.load("none"), "no such run"),
        (rtc.MemoryLimitError, lambda: rtc.train("tiny.rt", "tiny.yaml", memory="1KB", quiet=True), "is not possible"),
        (rtc.TimeLimitError, lambda: trained.eval("test", time_limit=1e-6), "--time-limit"),
    ]:
        with pytest.raises(error) as found:
            call()
        assert says in str(found.value), found.value
        assert BY_CODE[found.value.code] is error
        assert not str(found.value).startswith("error:")


def test_a_mistake_of_the_spec_is_told_with_its_place_when_it_is_trained(place: Path) -> None:
    Path("wrong.rt").write_text(Path("tiny.rt").read_text().replace("heads: 2", "head: 2"))
    with pytest.raises(rtc.SpecError) as found:
        rtc.train("wrong.rt", "tiny.yaml", quiet=True)
    assert any(problem.place == "wrong.rt:9:23" for problem in found.value.diagnostics), found.value.diagnostics


def recorded(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lets the program write its process id to the file that is returned."""
    wrapper, pid = place / "wrapper", place / "pid"
    wrapper.write_text(f'#!/bin/sh\necho $$ > "{pid}"\nexec "{rtc.program()}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("RTC_PROGRAM", str(wrapper))
    return pid


@pytest.mark.parametrize("sent, error, code", [(signal.SIGTERM, rtc.Stopped, 75), (signal.SIGKILL, rtc.RtcError, -9)])
def test_signals_have_their_classes(
    place: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, error: type[rtc.RtcError], code: int
) -> None:
    pid = recorded(place, monkeypatch)

    def kill() -> None:
        while not Path("runs/cut/checkpoints/last").exists():
            time.sleep(0.02)
        os.kill(int(pid.read_text()), sent)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(rtc.RtcError) as found:
        rtc.train("tiny.rt", "tiny.yaml", run="cut", with_={"epochs": 100000}, quiet=True)
    thread.join()
    assert type(found.value) is error and found.value.code == code
    assert rtc.load("cut").state == "stopped"


def test_a_missing_program_and_missing_pandas_say_what_to_do(
    place: Path, monkeypatch: pytest.MonkeyPatch, trained: rtc.Run
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"rtc-lang\[pandas\]"):
        rtc.runs()
    assert trained.predict(["[MAX 2 9 ]"])
    monkeypatch.setenv("RTC_PROGRAM", "")
    monkeypatch.setattr("sysconfig.get_path", lambda *_, **__: str(place))
    with pytest.raises(FileNotFoundError, match="RTC_PROGRAM"):
        rtc.version()


# An experiment whose program must not run without being allowed to.
PROGRAM = """\
model: tiny
task: { command: [sh, rows.sh], sizes: { train: 4, dev: 4, test: 4 } }
optimiser: { learning_rate: 0.001 }
schedule: { kind: constant }
batch: { size: 2 }
epochs: 1
evaluate: [test]
"""

WORDS = ["--help", "--version", "--run-commands", "-h", "--"]


@pytest.mark.parametrize("word", WORDS)
def test_a_name_that_looks_like_an_option_is_a_name(place: Path, trained: rtc.Run, word: str) -> None:
    """No name grants a right or prints the help: it is not found."""
    Path("names.yaml").write_text(PROGRAM)
    Path("rows.sh").write_text("touch ran\n")
    for call in [
        lambda: rtc.load(word),
        lambda: rtc.load_grid(word),
        lambda: rtc.compile(word),
        lambda: rtc.cost(word),
        lambda: rtc.diff(word, "gut"),
        lambda: rtc.diff("gut", word),
        lambda: rtc.train(word, "names.yaml", quiet=True),
        lambda: rtc.train("gut", word, quiet=True),
        lambda: rtc.ablate(word, quiet=True),
        lambda: rtc.runs(word),
        lambda: trained.eval(word),
        lambda: trained.eval(checkpoint=word),
        lambda: trained.eval(data=word),
    ]:
        with pytest.raises(rtc.RtcError) as found:
            call()
        assert found.value.code in (2, 6, 7) and word in str(found.value), found.value
        assert "unexpected argument" not in str(found.value) and "allow it by" not in str(found.value)
    assert not Path("ran").exists()


def test_values_that_look_like_options_are_values(place: Path) -> None:
    run = rtc.train("tiny.rt", "tiny.yaml", run="--fresh", max_steps=1, quiet=True)
    assert run.folder == place / "runs/--fresh"
    os.chdir("runs")
    assert rtc.load("--fresh").model == "tiny" and rtc.runs("--fresh")["name"].tolist() == ["--fresh"]
    with pytest.raises(rtc.SpecError, match="expected an edit"):
        rtc.compile("gut", set_=["--json"])


@pytest.mark.parametrize("printed", ["", "Usage: rtc", "[1", "null null"])
def test_output_that_is_no_json_is_an_error_of_the_package(
    place: Path, monkeypatch: pytest.MonkeyPatch, trained: rtc.Run, printed: str
) -> None:
    other = place / "other"
    other.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{printed}'\n")
    other.chmod(0o755)
    monkeypatch.setenv("RTC_PROGRAM", str(other))
    calls = [lambda: rtc.load("x"), lambda: rtc.runs(), lambda: rtc.compile("gut"), lambda: trained.predict(["a"])]
    calls.append(lambda: rtc.train("gut", stream=True, quiet=True))
    for call in calls:
        with pytest.raises(rtc.RtcError, match="must be JSON") as found:
            call()
        assert found.value.output.strip() == printed and "RTC_PROGRAM" in str(found.value)
