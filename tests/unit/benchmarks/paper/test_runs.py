from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.paper.runs import Pick, Runs
from tests.unit.benchmarks.paper.study import write_run

SENSE = Pick(("SENSE",), "sen", "soft_gated", "id")


def pick(folder: Path, wanted: Pick = SENSE) -> list[str]:
    return [run.hash for run in Runs.load([folder]).all_for("tiny", "gsm8k", wanted)]


def test_a_cell_takes_the_run_at_the_defaults_and_not_its_variants(tmp_path: Path) -> None:
    plain = write_run(tmp_path, "sen", "soft_gated", "id")
    write_run(tmp_path, "sen", "soft_gated", "id", changes={"verifier.k": 4})
    write_run(tmp_path, "sen", "soft_gated", "id", changes={"connector.max_nodes": 12})
    write_run(tmp_path, "sen", "soft_gated", "id", changes={"decode.temperature": 0.8})
    write_run(tmp_path, "sen", "soft_gated", "ood")
    write_run(tmp_path, "sen", "exact", "id")
    assert pick(tmp_path) == [plain.path.name.removeprefix("sen-")]


def test_knobs_name_what_a_variant_may_change(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "sen", "soft_gated", "id", changes={"verifier.k": 4, "verifier.w": 9})
    wanted = folder.path.name.removeprefix("sen-")
    assert pick(tmp_path, Pick((), "sen", "soft_gated", "id", {"verifier.k": 4, "verifier.w": 9})) == [wanted]
    assert pick(tmp_path, Pick((), "sen", "soft_gated", "id", {"verifier.k": 4})) == []
    assert pick(tmp_path, Pick((), "sen", "soft_gated", "id", {"verifier.k": 4, "verifier.w": 8})) == []


def test_of_two_runs_the_one_with_more_prompts_stands_in_the_cell_and_the_other_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "pld", prompts=3)
    write_run(tmp_path, "pld", prompts=5, changes={"decode.max_new_tokens": 64})
    first, second = Runs.load([tmp_path]).all_for("tiny", "gsm8k", Pick((), "pld"))
    assert (first.summary["n"], second.summary["n"]) == (5, 3)


def test_the_projects_own_small_sets_stay_out_of_the_papers_cells(tmp_path: Path) -> None:
    write_run(tmp_path, "pld", dataset="gsm8k-mini")
    assert pick(tmp_path, Pick((), "pld")) == []


def test_a_run_that_lies_under_two_folders_counts_once_and_unfinished_ones_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "pld")
    assert len(Runs.load([tmp_path, tmp_path / "runs"]).runs) == 1
    (folder.path / "summary.json").unlink()
    loaded = Runs.load([tmp_path])
    assert (loaded.runs, loaded.unfinished) == ([], [folder.path])


def test_folders_that_hold_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*missing"):
        Runs.load([tmp_path / "missing"])
    (tmp_path / "manifest.json").write_text("{}", encoding="ascii")
    with pytest.raises(ValueError, match="is not the manifest of a run"):
        Runs.load([tmp_path])


def test_the_papers_models_come_first_in_its_order(tmp_path: Path) -> None:
    for model in ("zeta", "qwen3-8b", "llama2-7b", "alpha"):
        write_run(tmp_path, "pld", model=model)
    assert Runs.load([tmp_path]).models == ["Llama2-7B", "Qwen3-8B", "alpha", "zeta"]
