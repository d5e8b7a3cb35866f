"""scripts.calibrate as a person types it: few calls, for each one starts an interpreter."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_run_errors import run
from tests.unit.methods.conftest import save_model

CALIBRATE = ("-m", "scripts.calibrate")


def words(tmp_path: Path) -> list[str]:
    save_model(tmp_path / "tiny", kind="llama")
    rows = tmp_path / "rows"
    rows.mkdir()
    for split in ("train", "test"):
        lines = [json.dumps({"question": f"{split} {i}?", "answer": f"so\n#### {i}"}) for i in range(4)]
        (rows / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        "method=pld",
        "verifier=arc",
        f"model.path={tmp_path / 'tiny'}",
        f"dataset.path={rows}",
        "dataset.num_samples=1",
        "dataset.template=chat",
        "device=cpu",
        f"cache_dir={tmp_path / 'cache'}",
    ]


def test_a_run_finds_the_calibration_of_its_verifier(tmp_path: Path) -> None:
    chosen, results = words(tmp_path), tmp_path / "results"
    small = ("calibration.num_prompts=2", "calibration.positions=3", "calibration.max_new_tokens=4")
    done = run(results, *chosen, *small, program=CALIBRATE)
    assert done.returncode == 0, done.stderr
    assert "tau_delta" in done.stdout
    path = Path(done.stdout.rsplit(": ", 1)[1].strip())
    assert path.parent == tmp_path / "cache" / "calibration"
    assert json.loads(path.read_text("utf-8"))["facts"]["samples"] == 6
    assert "2/2" in done.stderr

    assert run(results, *chosen, "decode.max_new_tokens=4").returncode == 0
