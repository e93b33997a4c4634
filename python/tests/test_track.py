"""Runs that are followed while they train, each where the program with the store is installed; its own reader reads the store."""

import json
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rtc_lang as rtc
from rtc_lang import track, trackers

LONG = {"epochs": 100000}
Points = dict[str, list[tuple[int, float]]]


def trained_a_while(updates: int) -> rtc.Training:
    """A training of the run `live` that goes on, after so many more updates."""
    training = rtc.train("tiny.rt", "tiny.yaml", run="live", with_=LONG, quiet=True, stream=True)
    for record in training:
        if record["update"] >= training.done + updates:
            break
    return training


def tracker(to: str, *more: str) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "rtc_lang.track", to, "live", "--project", "small", "--every", "0.05", *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def expected(run: rtc.Run) -> Points:
    """All points of a run by the names of the converter."""
    found: Points = {}
    for step, measures in trackers.history(run).items():
        for name, value in measures.items():
            found.setdefault(name, []).append((step, value))
    return found


def followed(to: str, place: str, read: Callable[[], Points]) -> Iterator[tuple[rtc.Run, Points]]:
    """Follows a run that is stopped and resumed, twice; what the store has each time. The store has points before the run has ended."""
    for _ in range(2):
        training = trained_a_while(12)
        before = sum(map(len, read().values()))
        with tracker(to, "--place", place) as process:
            assert process.stdout is not None and process.stderr is not None
            try:
                assert "of the " in process.stdout.readline(), process.stderr.read()
                while sum(map(len, read().values())) <= before:
                    assert process.poll() is None, process.stderr.read()
                    time.sleep(0.2)
                training.close()
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
        assert process.returncode == 0 and "live is stopped: " in out, err
        assert training.run is not None
        yield training.run, read()
    # A run that has not gone on has nothing to add.
    with tracker(to, "--place", place) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "live is stopped: 0 points added" in out, err
    assert training.run is not None
    yield training.run, read()


def of_mlflow(store: str) -> Points:
    """The points of the experiment `small`."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("small")
    found: Points = {}
    for run in client.search_runs([experiment.experiment_id]) if experiment else []:
        for name in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, name)
            found.setdefault(name, []).extend((one.step, one.value) for one in history)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sqlite:///{}/mlflow.db", "{}/files"])
def test_mlflow(place: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    # MLflow keeps connections by their URIs, so that a relative one would lead into the folder of another test.
    store = kind.format(place)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for run, points in followed("mlflow", store, lambda: of_mlflow(store)):
        assert points == expected(run)
    client = mlflow.MlflowClient(tracking_uri=store)
    [found] = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    assert (found.info.run_name, found.info.status, found.data.tags["rtc.state"]) == ("live", "KILLED", "stopped")
    assert found.data.params["optimiser.learning_rate"] == "0.003"


@pytest.mark.filterwarnings("ignore")
def test_a_tracker_that_was_interrupted_goes_on(place: Path) -> None:
    pytest.importorskip("mlflow")
    store = f"sqlite:///{place}/mlflow.db"
    training = trained_a_while(12)
    with tracker("mlflow", "--place", store) as process:
        try:
            assert process.stdout is not None and "of the " in process.stdout.readline()
            while not of_mlflow(store):
                assert process.poll() is None
                time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    # For a shell both are 130. Python ends by the signal where it interrupted the text of a class that a library makes.
    assert process.returncode in (130, -signal.SIGINT) and err.endswith("interrupted: the same command goes on\n"), err
    training.close()
    with tracker("mlflow", "--place", store) as process:
        assert process.wait(timeout=120) == 0
    assert training.run is not None and of_mlflow(store) == expected(training.run)


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")

    def read() -> Points:
        found: Points = {}
        for file in sorted(place.glob("wandb/offline-run-*/run-*.wandb")):
            for step, measures in offline(file):
                for name, value in measures.items():
                    if not name.startswith("_"):
                        found.setdefault(name, []).append((step, value))
        return found

    for run, points in followed("wandb", str(place), read):
        # The last update of a run that was stopped may get an evaluation when it is resumed: it is written then.
        last = run.metrics["update"].max()
        assert points == {name: [one for one in found if one[0] < last] for name, found in expected(run).items()}
    finished = rtc.train("tiny.rt", "tiny.yaml", run="whole", quiet=True)
    done = subprocess.run(
        [sys.executable, "-m", "rtc_lang.track", "wandb", "whole", "--place", str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "whole is finished: " in done.stdout, done.stderr
    identity = finished.info["run"][:32]
    [file] = place.glob(f"wandb/offline-run-*/run-{identity}.wandb")
    points = {(step, name): value for step, found in offline(file) for name, value in found.items() if name[0] != "_"}
    history = trackers.history(finished)
    assert points == {(step, name): value for step, found in history.items() for name, value in found.items()}
    assert b"results/test/accuracy" in file.read_bytes()


def offline(file: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The history of an offline file; of one that is being written as far as it is."""
    from wandb.proto.wandb_internal_pb2 import Record

    for data in parts(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            yield int(items["_step"]), items


def parts(held: bytes) -> Iterator[bytes]:
    """The records of a log of LevelDB, in blocks of 32 KiB, behind the seven bytes of W&B: a checksum, a size and a kind before each part."""
    at, whole = 7, b""
    while at + 7 <= len(held):
        if (left := -at % 32768) and left < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", held, at + 4)
        # 1 is whole, 2 the first of some parts, 4 the last.
        whole = held[at + 7 : at + 7 + size] if kind in (1, 2) else whole + held[at + 7 : at + 7 + size]
        at += 7 + size
        if at > len(held):
            return
        if kind in (1, 4):
            yield whole


@pytest.mark.filterwarnings("ignore")
def test_aim(place: Path) -> None:
    aim = pytest.importorskip("aim")
    quiet = aim.sdk.types.QueryReportMode.DISABLED

    def read() -> Points:
        if not (place / ".aim").exists():
            return {}
        found: Points = {}
        for metric in aim.Repo.from_path(str(place)).query_metrics("True", report_mode=quiet).iter():
            steps, (values, _, _) = metric.data.numpy()
            name = f"{metric.context['subset']}/{metric.name}"
            found.setdefault(name, []).extend(zip(map(int, steps), map(float, values)))
        return found

    for run, points in followed("aim", str(place), read):
        assert points == expected(run)
    [found] = [one.run for one in aim.Repo.from_path(str(place)).query_runs("True", report_mode=quiet).iter_runs()]
    assert (found.name, found.experiment, found["rtc", "model"]) == ("live", "small", "tiny")


def test_the_last_update_waits_for_its_evaluation(place: Path) -> None:
    """A stop between an update and its measurement: the point of dev comes when the run is resumed."""

    class Kept(trackers.Store):
        def write(self, points: trackers.Points) -> None:
            self.written = points

        def end(self, run: rtc.Run) -> None: ...

        def leave(self) -> None: ...

    training = trained_a_while(5)
    running = rtc.load("live")
    assert running.state == "running"
    late, once = Kept(), Kept()
    once.takes_late = False
    last = running.rows("updates")[-1]["update"]
    assert list(track.ready(running, late)) == list(track.ready(running, once)) == list(range(1, last))
    training.close()
    assert training.run is not None
    last = training.run.rows("updates")[-1]["update"]
    assert list(track.ready(training.run, late))[-1] == last and list(track.ready(training.run, once))[-1] == last - 1
    # A store that has a point is not given it again, also where the update has others since.
    assert late.log({1: {"train/loss": 1.0}}) == 1 and late.log({1: {"train/loss": 1.0, "dev/loss": 2.0}}) == 1
    assert late.written == {1: {"dev/loss": 2.0}}


def test_a_run_that_is_not_there_can_be_waited_for(place: Path) -> None:
    words = [sys.executable, "-m", "rtc_lang.track", "mlflow", "none"]
    failed = subprocess.run(words, check=False, capture_output=True, text=True)
    assert failed.returncode == 6 and "there is no such run" in failed.stderr
    start = time.monotonic()
    with pytest.raises(rtc.InputOutputError):
        track.begun("none", 0.5)
    assert time.monotonic() - start >= 0.5
    training = rtc.train("tiny.rt", "tiny.yaml", run="live", with_=LONG, quiet=True, stream=True)
    assert track.begun("live", 60).state == "running"
    training.close()
    assert track.begun("live", 0).state == "stopped"
