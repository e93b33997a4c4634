"""Grids: trained, opened without their experiment, half of them."""

import shutil
from pathlib import Path

import pytest

import rtc_lang as rtc


def test_a_grid_is_a_table_of_cells(place: Path) -> None:
    grid = rtc.ablate("tiny.yaml", with_={"seeds": [1, 2], "task.sizes.train": 48}, jobs=2, quiet=True)
    assert (grid.folder, grid.baseline) == (place / "runs/tiny", "tiny")
    assert list(zip(grid.cells["row"], grid.cells["seed"])) == [
        ("tiny", 1),
        ("tiny", 2),
        ("tiny:no_gate", 1),
        ("tiny:no_gate", 2),
    ]
    assert set(grid.cells["state"]) == {"finished"}
    by_hand = grid.cells.groupby("row")["test.accuracy"]
    table = grid.table.query("column == 'test'").set_index("row")
    for row in ("tiny", "tiny:no_gate"):
        assert table.loc[row, "mean"] == pytest.approx(by_hand.mean()[row])
        assert table.loc[row, "deviation"] == pytest.approx(by_hand.std()[row])
        assert grid.means.loc[row, "test"] == table.loc[row, "mean"]
    assert table.loc["tiny:no_gate", "difference"] == pytest.approx(
        table["mean"]["tiny:no_gate"] - table["mean"]["tiny"]
    )
    assert [run.seed for run in grid.runs()] == [1, 2, 1, 2]

    opened = rtc.load_grid("runs/tiny")
    assert opened.table.equals(grid.table) and opened.cells.equals(grid.cells)
    shutil.rmtree("runs/tiny/tiny/seed2")
    half = rtc.load_grid("tiny")
    assert list(half.cells["state"]) == ["finished", "absent", "finished", "finished"] and len(half.runs()) == 3
    with pytest.raises(ValueError, match="`load_grid` opens it"):
        rtc.load("tiny")


def test_nothing_is_trained_where_a_table_is_asked_for(place: Path) -> None:
    grid = rtc.ablate("tiny.yaml", train=False, quiet=True)
    assert set(grid.cells["state"]) == {"absent"} and not Path("runs").exists()
    assert grid.runs() == []
