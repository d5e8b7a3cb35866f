"""run.py as a person types it: few calls, for each one starts an interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(tmp_path: Path, *words: str, program: tuple[str, ...] = ("run.py",)) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *program, *words, f"results_dir={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("program", [("run.py",), ("-m", "scripts.prepare")], ids=["run", "prepare"])
def test_bad_words_end_with_one_sentence_each_and_exit_code_2(tmp_path: Path, program: tuple[str, ...]) -> None:
    done = run(tmp_path, "-m", "method=sens,pld", "dataset=gsm", program=program)
    assert done.returncode == 2
    assert done.stdout == ""
    said = done.stderr.splitlines()
    assert [line.split(":")[1].strip() for line in said] == ["unknown method 'sens'", "unknown dataset 'gsm'"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_rows_lack_the_columns_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "test.jsonl").write_text('{"ask": "1 + 1?"}\n')
    done = run(tmp_path / "results", "method=pld", f"dataset.path={rows}", "dataset.num_samples=1")
    assert done.returncode == 2
    assert "has no column 'question'" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_for_people(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    for part in ("Examples", "method: ", "decode.max_new_tokens", "Exit codes", "Quoting", "summary.json"):
        assert part in done.stdout
    assert "Powered by Hydra" not in done.stdout
