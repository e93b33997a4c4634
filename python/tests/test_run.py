"""Runs: trained, interrupted, opened, asked and listed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SPEC

import rtc_lang as rtc
from rtc_lang.program import lines


def test_records_are_frames(trained: rtc.Run) -> None:
    assert (trained.model, trained.seed, trained.state, trained.parameters) == ("tiny", 1, "finished", 3435)
    assert list(trained.metrics["update"]) == list(range(1, 41))
    assert trained.metrics["loss"].between(1, 4).all() and trained.metrics["mean_depth"].between(1, 3).all()
    dev = trained.evaluations.query("split == 'dev'")
    assert list(dev["update"]) == [10, 20, 30, 40] and dev["accuracy"].between(0, 1).all()
    assert list(trained.results["split"]) == ["test"] and trained.results["examples"][0] == 32
    assert trained.config["optimiser"]["learning_rate"] == 0.003 and trained.config["schedule"]["warmup"] == 5
    assert trained.checkpoint is not None and (trained.checkpoint / "weights.safetensors").is_file()
    assert rtc.compile(trained.spec).hash == trained.info["spec_hash"]
    assert time.time() - trained.begun < 3600


def test_what_is_measured_again_is_the_same(trained: rtc.Run) -> None:
    again = trained.eval("test")
    assert again["accuracy"][0] == trained.results["accuracy"][0] and again["loss"][0] == trained.results["loss"][0]
    assert list(trained.eval("test", "dev", checkpoint="last")["split"]) == ["test", "dev"]


def test_kept_checkpoints_have_the_names_of_their_updates(place: Path) -> None:
    run = rtc.train("tiny.rt", "tiny.yaml", run="a", with_={"checkpoints": {"every": 15}}, quiet=True)
    assert list(run.checkpoints) == ["best", "last", "15", "30"]
    assert all((folder / "weights.safetensors").is_file() for folder in run.checkpoints.values())
    assert len(run.eval("dev", checkpoint="15")) == 1


def test_predictions_come_in_the_order_of_the_inputs(trained: rtc.Run) -> None:
    inputs = ["[MAX 2 9 ]", "[MIN 3 4 ]"]
    both = trained.predict(inputs, probabilities=True, show_halting=True)
    assert [one["text"] for one in both] == inputs
    assert all(abs(sum(one["probabilities"].values()) - 1) < 1e-5 for one in both)
    assert both[0]["halting"][0]["place"] == "depthwise"
    assert trained.predict(inputs[1:])[0]["class"] == both[1]["class"]
    assert trained.predict([]) == []
    # An empty line is left out by the program, so that answers would slip.
    for wrong in ["", " ", "[MAX 2 ]\n[MAX 3 ]", "[MAX 2 ]\r"]:
        with pytest.raises(ValueError, match="one line"):
            trained.predict([wrong])


def test_texts_are_texts_and_mappings_are_rows(place: Path) -> None:
    rows = "".join(f"film {n % 7},{'bad' if n % 3 == 0 else 'good'}\n" for n in range(60))
    (place / "rows.csv").write_text("text,label\n" + rows)
    task = "task: { name: table, data: { train: rows.csv, dev: 20% }, tokens: words }\n"
    (place / "rows.yaml").write_text(task + (place / "tiny.yaml").read_text().split("32 }\n", 1)[1].replace("[test]", "[dev]"))
    run = rtc.train(SPEC, "rows.yaml", run="rows", quiet=True, max_steps=1)
    texts = ["text, and more", "text,label", "text", '{"a": 1}', '{"text": "film 1"}', "good"]
    assert [one["text"] for one in run.predict(texts)] == texts
    # A backslash is a character, whatever stands behind it.
    slashes = ["good\\film", "bad\\nfilm", "\\", "a\\", "good\\x41 film"]
    answers = run.predict(slashes)
    assert [one["text"] for one in answers] == slashes
    assert answers[1] != {**run.predict(["bad film"])[0], "text": slashes[1]}
    mixed = [texts[1], {"text": "film 1", "label": "good"}, texts[2], {"text": "film 2"}]
    found = run.predict(mixed)
    assert [one["text"] for one in found] == ["text,label", "film 1", "text", "film 2"]
    assert [one.get("label") for one in found] == [None, "good", None, None]
    with pytest.raises(rtc.RtcError, match="there is no column `text`"):
        run.predict([{"Text": "film 1"}])


# Every control character but those that end a line or an input, and the separators of Unicode.
SEPARATORS = [*range(0x01, 0x0A), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F, *range(0x80, 0xA1), 0x2028, 0x2029, 0xFEFF]


def test_lines_end_with_line_feeds_alone() -> None:
    texts = [f"a{chr(code)}b" for code in SEPARATORS]
    assert lines("\n".join(texts) + "\n") == texts
    assert (lines(""), lines("\n"), lines("a\n\nb")) == ([], [""], ["a", "", "b"])


def test_a_text_keeps_its_control_characters(trained: rtc.Run) -> None:
    texts = [f"[MAX 1{chr(code)} 2 ]" for code in SEPARATORS]
    try:
        answers = trained.predict(texts)
    except rtc.RtcError as error:
        # A task may refuse such a token, and the message is whole, with its control characters escaped.
        assert f"`1\\u{SEPARATORS[0]:04x}` is no symbol of ListOps" in str(error)
    else:
        assert [answer["text"] for answer in answers] == texts


def test_a_text_is_generated(place: Path) -> None:
    small = {"max_steps": 2, "task.sizes": {"dev": 4, "1x": 4}, "evaluate": ["1x"]}
    run = rtc.train("transformer:causal", "characters_smoke", run="text", with_=small, quiet=True)
    one, two = run.generate("the ", length=5, count=2, seed=3)
    assert one["prompt"] == "the " and len(one["tokens"]) == 5 and one["text"] != two["text"]
    assert {"perplexity", "accuracy"} <= set(run.results.columns)
    assert [made["prompt"] for made in run.generate(["a", "-b"], length=1)] == ["a", "-b"]


def test_the_same_call_finds_its_run_again(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = {"run": "short", "set_": {"depthwise.depth": 2}, "with_": {"task.sizes.train": 32}}
    run = rtc.train(SPEC, "tiny.yaml", **asked)
    shown = capfd.readouterr()
    assert "update 2  dev: accuracy" in shown.err and shown.out == ""
    assert len(run.metrics) == 8 and "depth: 2" in run.spec
    assert rtc.train(rtc.compile(SPEC), "tiny.yaml", quiet=True, **asked).begun == run.begun
    assert capfd.readouterr().err == ""
    with pytest.raises(rtc.RefusedError, match="another value"):
        rtc.train(SPEC, "tiny.yaml", **{**asked, "seed": 2}, quiet=True)
    fresh = rtc.train(SPEC, "tiny.yaml", **asked, fresh=True, quiet=True)
    assert fresh.name == "short.2" and fresh.metrics.equals(run.metrics)


INTERRUPTED = """
import signal
import rtc_lang as rtc

# A shell lets what runs in its background ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    rtc.train("tiny.rt", "tiny.yaml", run="{name}", with_={{"epochs": 100000}})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("whole_group", [False, True], ids=["as a notebook does", "as a terminal does"])
def test_an_interrupt_saves(place: Path, whole_group: bool) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(name="cut")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not Path("runs/cut/checkpoints/last").exists():
        assert child.poll() is None
        time.sleep(0.02)
    (os.killpg if whole_group else os.kill)(child.pid, signal.SIGINT)
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert out == "interrupted\n" and "stopped after update" in err, err
    stopped = rtc.load("cut")
    assert stopped.state == "stopped" and stopped.results.empty and len(stopped.metrics) >= 10
    # The same bits as without the interrupt.
    updates = len(stopped.metrics)
    whole = rtc.train("tiny.rt", "tiny.yaml", run="whole", with_={"epochs": 100000, "max_steps": updates}, quiet=True)
    assert stopped.metrics.equals(whole.metrics)


def test_runs_are_listed(place: Path) -> None:
    assert rtc.runs().empty
    few = {"task.sizes.train": 32}
    rtc.train("tiny.rt", "tiny.yaml", run="a", with_=few, quiet=True)
    rtc.train("tiny.rt", "tiny.yaml", run="b", with_={**few, "optimiser.learning_rate": 0.01}, quiet=True)
    assert list(rtc.runs(sort="-seed,-name")["name"]) == ["b", "a"]
    assert list(rtc.runs(where="optimiser.learning_rate<0.005")["name"]) == ["a"]
    table = rtc.runs("runs/b", where=["state=finished", "seed=1"], columns=["name", "optimiser.learning_rate"])
    assert table.iloc[0]["optimiser.learning_rate"] == 0.01
    assert rtc.load("@last").name in ("a", "b")
    one, other = rtc.load("a"), rtc.load("b")
    assert rtc.load(one).metrics.equals(one.metrics)
    assert "optimiser.learning_rate" in rtc.diff(one, other)
    assert "BAD" not in rtc.command("verify", one)
    with pytest.raises(ValueError, match="`load` opens it"):
        rtc.load_grid("a")
    # Damage is a row of the list, and refused where the run itself is asked for.
    file = Path("runs/a/results.json")
    results = json.loads(file.read_text())
    file.write_text(file.read_text().replace(f'"examples": {results["splits"][0]["examples"]}', '"examples": 31'))
    assert list(rtc.runs(where="state=damaged")["name"]) == ["a"]
    with pytest.raises(rtc.RefusedError, match="results.json"):
        rtc.load("a")
