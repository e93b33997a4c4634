"""Converters into the stores of other programs, each where that program is installed; what they wrote is read by its own reader."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rtc_lang as rtc
from rtc_lang import trackers

Convert = Callable[..., None]


@pytest.fixture
def converted(trained: rtc.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Convert:
    """Converts the tiny run in a process of its own, twice: the second time replaces the first."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_MODE", "WANDB_SILENT"):
        monkeypatch.setenv(name, {"WANDB_MODE": "offline"}.get(name, "true"))

    def run(to: str, *more: str) -> None:
        for _ in range(2):
            words = [sys.executable, "-m", "rtc_lang.convert", to, str(trained.folder), "--project", "small", *more]
            done = subprocess.run(words, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert "of the " in done.stdout and "small" in done.stdout

    return run


def test_a_run_is_settings_history_and_results(trained: rtc.Run) -> None:
    settings, history = trackers.settings(trained), trackers.history(trained)
    assert settings["optimiser.learning_rate"] == 0.003 and settings["model"] == "tiny" and "task.data" not in settings
    assert list(history) == list(range(1, 41))
    assert history[10]["dev/accuracy"] == trained.evaluations["accuracy"][0] and "dev/accuracy" not in history[11]
    assert history[1]["train/loss"] == trained.metrics["loss"][0]
    assert trackers.results(trained)["results/test/accuracy"] == trained.results["accuracy"][0]


@pytest.mark.filterwarnings("ignore")
def test_mlflow(trained: rtc.Run, converted: Convert, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    place = f"sqlite:///{tmp_path}/mlflow.db"
    converted("mlflow", "--place", place)
    client = mlflow.MlflowClient(tracking_uri=place)
    store = client.get_experiment_by_name("small")
    [found] = client.search_runs([store.experiment_id])
    assert found.info.run_name == trained.name and found.info.status == "FINISHED"
    assert found.data.params["optimiser.learning_rate"] == "0.003"
    assert found.data.metrics["results/test/loss"] == trained.results["loss"][0]
    losses = client.get_metric_history(found.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in losses] == list(zip(trained.metrics["update"], trained.metrics["loss"]))
    assert [one.path for one in client.list_artifacts(found.info.run_id)] == ["experiment.yaml", "spec.rt"]


@pytest.mark.filterwarnings("ignore")
def test_wandb(trained: rtc.Run, converted: Convert, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    converted("wandb", "--place", str(tmp_path))
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert files
    identity = trained.info["run"][:32]
    assert all(identity in file.name for file in files)
    held = files[-1].read_bytes()
    for text in ("results/test/accuracy", "train/loss", "dev/accuracy", "optimiser.learning_rate", "small"):
        assert text.encode() in held, text


@pytest.mark.filterwarnings("ignore")
def test_aim(trained: rtc.Run, converted: Convert, tmp_path: Path) -> None:
    aim = pytest.importorskip("aim")
    converted("aim", "--place", str(tmp_path))
    repo = aim.Repo.from_path(str(tmp_path))
    quiet = aim.sdk.types.QueryReportMode.DISABLED
    [found] = [one.run for one in repo.query_runs("run.rtc.model == 'tiny'", report_mode=quiet).iter_runs()]
    assert (found.name, found.experiment) == (trained.name, "small")
    assert found["rtc", "optimiser.learning_rate"] == 0.003
    [losses] = repo.query_metrics(
        "metric.name == 'loss' and metric.context.subset == 'train'", report_mode=quiet
    ).iter()
    steps, (values, _, _) = losses.data.numpy()
    assert list(steps) == list(trained.metrics["update"]) and list(values) == list(trained.metrics["loss"])
