from __future__ import annotations

from pathlib import Path

import pytest

from scripts import paper
from tests.unit.benchmarks.paper.study import files_of, write_run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Stand in a folder whose results/runs holds two runs."""
    write_run(tmp_path / "results", "pld")
    write_run(tmp_path / "results", "sen", "soft_gated", "ood")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["paper", *words])
    return paper.main()


def test_named_tables_come_from_the_runs_given(call: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert run(monkeypatch, "table1", "figure5", "runs=results/runs") == 0
    assert set(files_of(call / "results/runs/paper")) == {
        *(f"table1.{ending}" for ending in ("csv", "md", "tex")),
        *(f"figure5.{ending}" for ending in ("csv", "md", "tex", "png", "svg")),
    }
    shown = capsys.readouterr().out
    assert "2 runs, 2 tables and figures: results/runs/paper" in shown
    assert "table1: 8 of 8 rows have empty cells, named below the table" in shown


def test_a_collected_study_is_redone_in_place_by_all(call: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "collect", "results/runs", "out=results/mine") == 0
    assert run(monkeypatch, "all") == 0
    first = files_of(call / "results/mine/paper")
    assert len(first) > 50
    assert run(monkeypatch, "table1", "figure8") == 0
    assert files_of(call / "results/mine/paper") == first


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tabel1"], "unknown name 'tabel1': did you mean 'table1'"),
        (["table1", "run=x"], "unknown option 'run': did you mean 'runs'"),
        (["table1", "runs=nowhere"], "there is no folder nowhere"),
        (["table1"], "there is no study under results/"),
        (["table1", "runs=results", "published=yes"], "published is 'yes'; it must be true or false"),
        (["collect", "results/runs"], "collect needs folders with runs and out="),
    ],
)
def test_words_that_cannot_work_get_one_sentence(
    call: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: list[str], sentence: str
) -> None:
    assert run(monkeypatch, *words) == 2
    assert sentence in capsys.readouterr().err


def test_without_words_it_says_what_it_does(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert run(monkeypatch) == 2
    assert "NAME|all" in capsys.readouterr().err
