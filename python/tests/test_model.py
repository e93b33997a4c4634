"""Models in a process of their own: shapes, agreement with `rtc predict` and with PyTorch, failures, and the end of the process."""

import gc
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import EXPERIMENT, SPEC
from test_errors import recorded

import rtc_lang as rtc

numpy = pytest.importorskip("numpy")

TEXTS = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[MIN 4 7 ]", "5", "[MED 1 2 [MAX 8 0 ] ]"]
# The last 19 lines of the experiment are the same for every task.
REST = EXPERIMENT.split("32 }\n", 1)[1].replace("[test]", "[dev]").replace("evaluate:", "max_steps: 3\nevaluate:")


def exported(run: rtc.Run, folder: str) -> dict[str, Any]:
    """Exports a run for PyTorch; its facts."""
    rtc.command("export", run, "--format", "torch", "--output", folder)
    facts: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text())
    return facts


def ids(texts: list[str], vocabulary: list[str]) -> list[list[int]]:
    return [[vocabulary.index(token) for token in text.split()] for text in texts]


def softmax(logits: Any) -> Any:
    weights = numpy.exp(logits.astype(float) - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def padded(rows: list[list[int]]) -> tuple[Any, Any]:
    """An array with rubbish behind the rows, and their lengths."""
    out = numpy.full((len(rows), max(map(len, rows)) + 2), 77)
    for n, row in enumerate(rows):
        out[n, : len(row)] = row
    return out, numpy.array([len(row) for row in rows])


def test_logits_are_those_of_predict(place: Path, trained: rtc.Run) -> None:
    told = trained.predict(TEXTS, logits=True)
    rows = ids(TEXTS, exported(trained, "exported")["vocabulary"])
    with rtc.Model(trained) as model:
        assert (model.answers, model.classes, model.vocabulary) == ("class", [str(n) for n in range(10)], 15)
        logits = model(TEXTS)
        assert logits.dtype == numpy.float32 and logits.shape == (4, 10)
        array, lengths = padded(rows)
        for same in (model(rows), model(array, lengths), model(array.astype("uint8"), lengths.tolist())):
            assert same.tobytes() == logits.tobytes()
        assert model(array[1:2, : lengths[1]]).shape == (1, 10)
        assert model([]).shape == (0, 10) and model(array[:0]).shape == (0, 10)
    for found, answer in zip(logits, told):
        assert numpy.abs(found - [answer["logits"][name] for name in model.classes]).max() < 1e-6
        assert softmax(found).max() == pytest.approx(answer["confidence"], abs=1e-6)
        assert model.classes[found.argmax()] == answer["class"]


def test_logits_are_those_of_pytorch(place: Path, trained: rtc.Run) -> None:
    torch = pytest.importorskip("torch")
    rows = ids(TEXTS, exported(trained, "exported")["vocabulary"])
    tokens, lengths = (torch.from_numpy(array) for array in padded(rows))
    spec = importlib.util.spec_from_file_location("exported_model", "exported/model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    theirs = module.Model.from_folder("exported").eval()
    with torch.no_grad():
        # What lies behind a row is read by neither.
        expected = theirs(tokens.clamp(max=14), lengths)
    with rtc.Model(trained) as model:
        found = model(tokens, lengths)
        assert isinstance(found, torch.Tensor) and found.dtype == torch.float32 and found.shape == (4, 10)
        assert (found - expected).abs().max() < 1e-5
        assert isinstance(model(TEXTS), numpy.ndarray)


def own(place: Path, task: str, rows: list[dict[str, object]], spec: str = SPEC) -> rtc.Run:
    """A run on own rows, which rows may be many of."""
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = f"task: {{ data: {{ train: rows.jsonl, dev: 20% }}, {task} }}\n"
    (place / "own.yaml").write_text(head + REST)
    return rtc.train(spec, "own.yaml", run="own", quiet=True)


def test_a_class_for_every_token_has_zeros_behind_the_rows(place: Path) -> None:
    rows: list[dict[str, object]] = [
        {"words": list("abc"[n % 3 :] + "abc"[: n % 4]), "tags": list("xyz"[n % 3 :] + "xyz"[: n % 4])}
        for n in range(60)
    ]
    spec = SPEC.replace("tokens: start_end", "tokens: none").replace("readout end", "readout each")
    run = own(place, "name: tagging, input: words, label: tags", rows, spec)
    texts = ["a b c a", "b"]
    told = run.predict(texts, logits=True)
    with rtc.Model(run) as model:
        logits = model(texts)
        assert model.answers == "class of every token" and logits.shape == (2, 4, 3)
        assert not logits[1, 1:].any()
        assert model([]).shape == (0, 0, 3)
        array = numpy.zeros((2, 6), int)
        assert model(array, [2, 1]).shape == (2, 6, 3) and not model(array, [2, 1])[:, 2:].any()
    for found, answer in zip(logits, told):
        for one, expected in zip(found, answer["logits"]):
            assert numpy.abs(one - [expected[name] for name in model.classes]).max() < 1e-6


def test_two_classes_have_two_logits(place: Path) -> None:
    run = own(place, "name: table", [{"text": f"film {n % 7}", "label": "bad" if n % 3 else "good"} for n in range(60)])
    told = run.predict(["film 1", "good\nfilm"[:4]])
    with rtc.Model(run, checkpoint="last") as model:
        logits = model([{"text": "film 1"}, {"text": "good", "label": "bad"}])
        assert logits.shape == (2, 2) and not logits[:, 0].any()
        assert logits.tobytes() == model(["film 1", "good"]).tobytes()
        assert model(["a line\nand another"]).shape == (1, 2), "a text may have line ends"
        with pytest.raises(ValueError, match="texts or mappings"):
            model(["film 1", {"text": "film 1"}])
        with pytest.raises(rtc.DataError, match="row 1: there is no column `text`"):
            model([{"Text": "film 1"}])
    with rtc.Model(run) as best:
        assert softmax(best(["film 1"]))[0].max() == pytest.approx(told[0]["confidence"], abs=1e-6)


def test_several_labels_have_a_logit_each(place: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": f"film {n % 7}", "label": [["rude"], ["rude", "threat"], []][n % 3]} for n in range(60)
    ]
    run = own(place, "name: table, answer: labels", rows)
    [told] = run.predict(["film 3"], logits=True)
    with rtc.Model(run) as model:
        logits = model(["film 3"])
    assert (model.answers, model.classes, logits.shape) == ("several labels", ["rude", "threat"], (1, 2))
    assert numpy.abs(logits[0] - [told["logits"][name] for name in model.classes]).max() < 1e-6


def test_a_number_has_the_unit_of_the_data(place: Path) -> None:
    run = own(
        place, "name: table, answer: number", [{"text": f"film {n % 7}", "label": 1000 + n % 7} for n in range(60)]
    )
    [told] = run.predict(["film 3"])
    with rtc.Model(run) as model:
        found = model(["film 3"])
        assert (model.answers, found.shape, model([]).shape) == ("number", (1, 1), (0, 1))
    assert found[0, 0] == pytest.approx(told["number"], rel=1e-6) and found[0, 0] > 900


def test_pairs_have_second_rows(place: Path) -> None:
    rows: list[dict[str, object]] = [
        {"a": f"film {n % 7}", "b": f"story {n % 5}", "label": "xy"[n % 2]} for n in range(60)
    ]
    run = own(place, "name: pairs, input: [a, b]", rows)
    told = run.predict([("film 3", "story 1")])
    vocabulary = exported(run, "exported")["vocabulary"]
    with rtc.Model(run) as model:
        logits = model(["film 3\tstory 1", "film\tstory 2"])
        assert softmax(logits)[0].max() == pytest.approx(told[0]["confidence"], abs=1e-6)
        first, second = padded(ids(["film 3", "film"], vocabulary)), padded(ids(["story 1", "story 2"], vocabulary))
        assert model(*first, *second).tobytes() == logits.tobytes()
        assert model([{"a": "film 3", "b": "story 1"}]).shape == (1, 2)
        for wrong in [(*first,), (["film 3\tstory"], None, [[1]])]:
            with pytest.raises(ValueError, match="`second` must be given"):
                model(*wrong)
        with pytest.raises(ValueError, match=r"as many rows as `rows` \(2\): got 1"):
            model(*first, [[1]])


def test_mistakes_leave_the_model_as_it_is(trained: rtc.Run) -> None:
    with rtc.Model(trained) as model:
        expected = model([[1, 2]])
        for wrong, error, says in [
            (([[1, 2], [15]],), rtc.DataError, "token id 15 is outside the vocabulary of 15"),
            (([[1], []],), rtc.DataError, "row 2 is empty"),
            ((["[MAX 1 x ]"],), rtc.DataError, "row 1: `x` is no symbol"),
            ((numpy.zeros(3, int),), ValueError, r"the shape \[rows, length\]: got \[3\]"),
            ((numpy.zeros((1, 3)),), ValueError, "must be whole numbers"),
            (([[1.5]],), ValueError, "must be whole numbers"),
            (([[-1]],), ValueError, "from 0 to 4294967295"),
            ((numpy.zeros((1, 3), int), [4]), ValueError, r"1 numbers from 1 to 3: got \[4\]"),
            ((numpy.zeros((1, 3), int), [1, 1]), ValueError, "1 numbers from 1 to 3"),
            ((numpy.zeros((1, 3), int), [0]), ValueError, "1 numbers from 1 to 3"),
            (([[1]], [1]), ValueError, "a list of ids is taken whole"),
            ((["5"], [1]), ValueError, "a text is taken whole"),
            ((["5"], None, [[1]]), ValueError, "`second` must be given"),
            ((["5" * 70_000_000],), ValueError, "at most 67,108,864 bytes"),
        ]:
            with pytest.raises(error, match=says):
                model(*wrong)
            assert model([[1, 2]]).tobytes() == expected.tobytes()
    for call in (lambda: model([[1, 2]]), lambda: model(["5"])):
        with pytest.raises(ValueError, match="closed"):
            call()
    model.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def interrupted() -> None:
    raise KeyboardInterrupt


def test_one_process_answers_until_it_is_closed(place: Path, trained: rtc.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = recorded(place, monkeypatch)
    model = rtc.Model(trained)
    first = int(pid.read_text())
    expected = model(["5"])
    assert model(["5"]).tobytes() == expected.tobytes() and int(pid.read_text()) == first and is_running(first)
    # One that was killed is begun again by the call after it.
    os.kill(first, signal.SIGKILL)
    with pytest.raises(rtc.RtcError) as found:
        model(["5"])
    assert found.value.code == -9
    assert model(["5"]).tobytes() == expected.tobytes()
    second = int(pid.read_text())
    assert second != first and is_running(second)
    # So is one whose answer was interrupted.
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(model._program, "_read", interrupted)
        model(["5"])
    assert not is_running(second)
    assert model(["5"]).tobytes() == expected.tobytes()
    second = int(pid.read_text())
    model.close()
    assert not is_running(second)
    dropped = rtc.Model(trained)
    third = int(pid.read_text())
    assert is_running(third)
    del dropped
    gc.collect()
    assert not is_running(third)


def test_what_can_not_be_opened_is_told(place: Path, trained: rtc.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rtc.InputOutputError, match="no such run"):
        rtc.Model("none")
    with pytest.raises(rtc.InputOutputError, match="no such run"):
        rtc.Model("--help")
    with pytest.raises(rtc.RtcError, match="17"):
        rtc.Model(trained, checkpoint="17")
    other = place / "other"
    other.write_text("#!/bin/sh\necho 'Usage: rtc and more'\n")
    other.chmod(0o755)
    monkeypatch.setenv("RTC_PROGRAM", str(other))
    with pytest.raises(rtc.RtcError, match="must be frames"):
        rtc.Model(trained)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ImportError, match=r"rtc-lang\[numpy\]"):
        rtc.Model(trained)
