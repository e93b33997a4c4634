"""Trainings that are read update by update: to their end, stopped, resumed, left, failed."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SPEC
from test_errors import recorded

import rtc_lang as rtc

LONG = {"epochs": 100000}


def test_a_stream_has_every_record_and_then_the_run(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    training = rtc.train("tiny.rt", "tiny.yaml", run="a", stream=True)
    assert (training.done, training.total, training.folder, training.run) == (0, 40, place / "runs/a", None)
    found = list(training)
    assert "update 10  dev: accuracy" in capfd.readouterr().err
    run = training.run
    assert run is not None and run.state == "finished"
    steps = [record for record in found if record["kind"] == "step"]
    assert [{**row, "kind": "step"} for row in run.rows("updates")] == steps
    evaluations = [record for record in found if record["kind"] == "evaluation"]
    assert [{**row, "kind": "evaluation"} for row in run.rows("evaluations")] == evaluations
    assert len(found) == 45 and [record["split"] for record in evaluations] == ["dev"] * 4 + ["test"]
    # In the order of the training.
    assert found.index(evaluations[0]) == found.index(steps[9]) + 1
    assert all(type(record["update"]) is int for record in found)
    assert list(training) == [] and training.run is run
    training.close()
    again = rtc.train("tiny.rt", "tiny.yaml", run="a", stream=True, quiet=True)
    assert (list(again), again.total) == ([], None) and again.run is not None and again.run.begun == run.begun
    assert capfd.readouterr().err == ""


def test_a_closed_stream_is_saved_and_goes_on(place: Path) -> None:
    seen = 0
    with rtc.train(SPEC, "tiny.yaml", run="cut", with_=LONG, quiet=True, stream=True) as training:
        for record in training:
            seen = record["update"]
            if seen == 25:
                break
    stopped = training.run
    assert stopped is not None and stopped.state == "stopped" and len(stopped.metrics) >= seen
    assert list(training) == []
    more = rtc.train(SPEC, "tiny.yaml", run="cut", with_=LONG, quiet=True, stream=True)
    assert more.done == len(stopped.metrics)
    assert next(record for record in more if record["kind"] == "step")["update"] == more.done + 1
    more.close()
    more.close()
    assert more.run is not None
    updates = len(more.run.metrics)
    whole = rtc.train(SPEC, "tiny.yaml", run="whole", with_={**LONG, "max_steps": updates}, quiet=True)
    assert more.run.metrics.equals(whole.metrics), "the same bits as without the stops"


def test_a_loop_that_is_left_stops_the_training(place: Path) -> None:
    for record in rtc.train("tiny.rt", "tiny.yaml", run="left", with_=LONG, quiet=True, stream=True):
        if record["update"] == 3:
            break
    gc.collect()
    assert rtc.load("left").state == "stopped"


def test_a_slow_reader_holds_nothing_up(place: Path) -> None:
    """The program writes more than a pipe holds."""
    asked = {"max_steps": 1500, "evaluate_every": 1500}
    training = rtc.train("tiny.rt", "tiny.yaml", run="slow", with_={**LONG, **asked}, quiet=True, stream=True)
    while rtc.load("slow").state != "finished":
        time.sleep(0.05)
    assert sum(record["kind"] == "step" for record in training) == 1500


def test_mistakes_are_told_at_once(place: Path) -> None:
    with pytest.raises(rtc.UsageError, match="did you mean `gut`"):
        rtc.train("gutt", quiet=True, stream=True)
    with pytest.raises(rtc.SpecError) as found:
        rtc.train(SPEC.replace("heads: 2", "head: 2"), "tiny.yaml", quiet=True, stream=True)
    assert any(problem.place == "spec.rt:9:23" for problem in found.value.diagnostics)
    wrong = {"optimiser.learning_rate": 1e38, "optimiser.clip": None}
    with pytest.raises(rtc.NotFiniteError, match="update"):
        list(rtc.train("tiny.rt", "tiny.yaml", with_=wrong, quiet=True, stream=True))


@pytest.mark.parametrize("sent, error", [(signal.SIGTERM, rtc.Stopped), (signal.SIGKILL, rtc.RtcError)])
def test_a_signal_of_another_process_is_an_exception(
    place: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, error: type[rtc.RtcError]
) -> None:
    pid = recorded(place, monkeypatch)
    training = rtc.train("tiny.rt", "tiny.yaml", run="cut", with_=LONG, quiet=True, stream=True)
    seen = []
    with pytest.raises(rtc.RtcError) as found:
        for record in training:
            seen.append(record)
            if len(seen) == 15:
                os.kill(int(pid.read_text()), sent)
    assert type(found.value) is error
    # Every line that was written was read.
    updates = rtc.load("cut").rows("updates")
    assert [record["update"] for record in seen if record["kind"] == "step"] == [row["update"] for row in updates]


INTERRUPTED = """
import signal
import rtc_lang as rtc

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    for record in rtc.train("tiny.rt", "tiny.yaml", run="cut", with_={"epochs": 100000}, quiet=True, stream=True):
        print(record["update"], flush=True)
except KeyboardInterrupt:
    print(rtc.load("cut").state, flush=True)
"""


def test_an_interrupt_saves(place: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    while child.stdout.readline() != "12\n":
        assert child.poll() is None
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out.splitlines()[-1] == "stopped", out
