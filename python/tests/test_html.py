"""What a notebook shows of specs, grids and runs, and whole numbers in frames."""

import xml.etree.ElementTree as tree
from pathlib import Path

import pytest
from conftest import SPEC

import rtc_lang as rtc
from rtc_lang import html
from rtc_lang.frames import frame


def cells(shown: str) -> list[list[str]]:
    """The rows of all tables; what is shown is well-formed."""
    page = tree.fromstring(shown)
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


@pytest.fixture
def no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)


def test_a_run_is_a_table(trained: rtc.Run, no_pandas: None) -> None:
    rows = cells(trained._repr_html_())
    assert ["parameters", "3,435"] in rows and ["state", "finished"] in rows
    head = next(n for n, row in enumerate(rows) if row[0] == "update")
    assert rows[head + 1][0] == "40", "the last logged update"
    results = next(n for n, row in enumerate(rows) if row[0] == "split")
    assert rows[results][:2] == ["split", "examples"] and rows[results + 1][:2] == ["test", "32"]


def test_a_spec_is_a_table(place: Path, no_pandas: None) -> None:
    rows = cells(rtc.compile(SPEC, task="listops")._repr_html_())
    assert ["about", "A gated model that halts, as small as it gets."] in rows
    assert ["depthwise.feedforward.up.weight", "16 × 16", "256"] in rows
    symbolic = cells(rtc.compile(SPEC)._repr_html_())
    assert any(row[-1] == "" and "vocab" in row[1] for row in symbolic if len(row) == 3), symbolic


def test_a_grid_is_a_table(place: Path, no_pandas: None) -> None:
    grid = rtc.ablate("tiny.yaml", with_={"seeds": [1, 2], "task.sizes.train": 16, "epochs": 1}, quiet=True)
    rows = cells(grid._repr_html_())
    assert ["cells", "4 finished"] in rows
    assert [row[0] for row in rows if "±" in row[-1]] == ["tiny", "tiny:no_gate"]
    nothing = rtc.ablate("tiny.yaml", with_={"seeds": [5]}, train=False, quiet=True)
    assert ["cells", "2 absent"] in cells(nothing._repr_html_())


def test_texts_are_escaped(place: Path, no_pandas: None) -> None:
    wrong = "<script>alert(1)</script> & \"'"
    rtc.train("tiny.rt", "tiny.yaml", run="a", max_steps=1, quiet=True)
    rtc.command("runs", "note", "a", wrong)
    shown = rtc.load("a")._repr_html_()
    assert "<script>" not in shown and ["note", wrong] in cells(shown)
    spec = rtc.compile(SPEC.replace("/// A gated", "/// <b>A gated</b>"))
    assert "<b>" not in spec._repr_html_()
    assert cells(html.table(["a", "b"], [[n, n] for n in range(45)]))[30:] == [["29", "29"], ["and 15 more"]]
    assert html.table([wrong], []) == "" and cells(html.table([wrong], [[wrong]], wrong)) == [[wrong], [wrong]]


def test_numbers_are_short() -> None:
    values = [None, True, 1234567, 0.123456, 1e-9, float("nan"), "a", ["b", "c"]]
    assert list(map(html.shown, values)) == ["", "True", "1,234,567", "0.1235", "1e-09", "nan", "a", "b, c"]


def test_whole_numbers_stay_whole(place: Path, trained: rtc.Run) -> None:
    whole = {"update", "epoch", "scored", "examples"}
    for found in (trained.metrics, trained.evaluations, trained.results):
        assert {str(found[name].dtype) for name in whole & set(found.columns)} == {"int64"}
    costs = rtc.cost("tiny.rt", length=[10, 100])
    for name in ("parameters", "embedding", "forward", "training", "again", "depth", "training_total"):
        assert costs[name].dtype == "int64", name
    # Some of these have no number.
    weights = rtc.compile("tiny.rt").weights
    assert weights["numbers"].dtype == "Int64" and weights["numbers"].isna().any()
    mixed = frame([{"a": 1, "b": 1, "c": 1.5, "d": True}, {"b": None, "c": 2, "d": None}, {"a": 2**60}])
    assert [str(kind) for kind in mixed.dtypes] == ["Int64", "Int64", "float64", "object"]
    assert mixed["a"][2] == 2**60 and frame([{"a": None}])["a"].isna().all()


def test_a_damaged_run_leaves_the_numbers_of_others_whole(place: Path) -> None:
    for name in ("a", "b"):
        rtc.train("tiny.rt", "tiny.yaml", run=name, max_steps=1, quiet=True)
    file = Path("runs/a/run.json")
    file.write_text(file.read_text().replace('"seed": 1', '"seed": 2'))
    listed = rtc.runs().set_index("name")
    assert listed.loc["a", "state"] == "damaged" and listed.loc["b", "updates"] == 1
    assert str(listed["updates"].dtype) == "Int64" and str(listed["seed"].dtype) == "Int64"
