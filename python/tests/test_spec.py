"""Specs: texts, paths and names; their mistakes; what they cost and how they differ."""

from pathlib import Path

import pytest
from conftest import SPEC

import rtc_lang as rtc


def test_a_text_a_path_and_a_name_are_specs(place: Path) -> None:
    text, path = rtc.compile(SPEC), rtc.compile(place / "tiny.rt")
    assert (text.name, text.hash) == (path.name, path.hash) == ("tiny", rtc.compile("tiny.rt").hash)
    assert text.doc == "A gated model that halts, as small as it gets."
    assert text.graph.startswith('graph "tiny" {') and text.graph == path.graph
    assert text.stage("plan") != text.stage("plan", inference=True)
    assert rtc.compile("gut:no_gate").name == "gut:no_gate"
    assert rtc.compile(SPEC, variant="no_gate").name == "tiny:no_gate"
    # The graph stands in the place of its spec.
    (place / "tiny.rtir").write_text(text.graph)
    assert rtc.compile("tiny.rtir").parameters == text.parameters


def test_edits_are_those_of_the_command_line(place: Path) -> None:
    plain, deep = rtc.compile(SPEC), rtc.compile(SPEC, set_={"depthwise.depth": 20})
    assert deep.hash == rtc.compile(SPEC, set_=["depthwise.depth=20"]).hash != plain.hash
    assert "depth: 20" in deep.text and "depth: 3" in plain.text
    assert rtc.compile(deep.text).hash == deep.hash
    assert "gate mlp" not in rtc.compile(SPEC, set_=["gate none"]).text
    with pytest.raises(TypeError, match="list of texts"):
        rtc.compile(SPEC, set_="gate none")


def test_parameters_are_those_of_the_task(place: Path) -> None:
    symbolic, sized = rtc.compile(SPEC), rtc.compile(SPEC, task="listops")
    assert sized.weights["numbers"].sum() == sized.parameters > symbolic.parameters
    row = sized.weights.set_index("name").loc["depthwise.feedforward.up.weight"]
    assert row["shape"] == [16, 16] and row["numbers"] == 256
    assert symbolic.weights["numbers"].isna().any()


def test_every_mistake_has_its_place_and_its_cure() -> None:
    with pytest.raises(rtc.SpecError) as found:
        rtc.compile(SPEC.replace("mlp { hidden: 16 }", "mlp { hiddn: 16 }").replace("depth: 3", "dept: 3"))
    assert sorted(one.code for one in found.value.diagnostics) == ["missing-field"] * 2 + ["unknown-field"] * 2
    problem = next(one for one in found.value.diagnostics if "hiddn" in one.message)
    assert (problem.place, problem.severity) == ("spec.rt:8:20", "error")
    assert problem.message == "`gate mlp` has no field `hiddn`"
    assert problem.cure.startswith("did you mean `hidden`?")
    assert str(problem).startswith("spec.rt:8:20: error[unknown-field]: `gate mlp` has no field `hiddn` (did you mean")
    # The report for people, without the folder in which the text lies.
    assert " --> spec.rt:8:20\n" in str(found.value) and found.value.code == 3


def test_costs_are_rows_of_a_frame(place: Path) -> None:
    costs = rtc.cost("tiny.rt", rtc.compile(SPEC, set_={"depthwise.depth": 6}), length=[10, 100], batch=8)
    assert list(costs["length"]) == [10, 100, 10, 100] and set(costs["batch"]) == {8}
    small, _, deep, _ = costs["forward"]
    assert small < deep < 2 * small
    assert rtc.compile("tiny.rt").cost(depth=1)["forward"][0] < rtc.compile("tiny.rt").cost()["forward"][0]


def test_differences_are_those_of_graphs(place: Path) -> None:
    assert "depthwise.gate" in rtc.diff("tiny.rt", "tiny.rt:no_gate", only="gate")
    with pytest.raises(rtc.NegativeFinding) as found:
        rtc.diff("tiny.rt", "tiny.rt:no_gate", only="halt")
    assert "gate" in found.value.output
    edited = rtc.compile(SPEC, set_=["gate none"])
    assert "depthwise.gate" in rtc.diff(SPEC, edited)
