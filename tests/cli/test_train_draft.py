"""scripts.train_draft and a run with what it has made, as a person types them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_calibrate import words
from tests.cli.test_run_errors import run

TRAIN = ("-m", "scripts.train_draft")


def test_a_draft_model_is_trained_and_drafts(tmp_path: Path) -> None:
    chosen = [word for word in words(tmp_path) if not word.startswith(("method=", "verifier=", "dataset.template"))]
    data, place = tmp_path / "data", tmp_path / "draft"
    data.mkdir()
    (data / "gsm8k").symlink_to(tmp_path / "rows")
    training = [f"training.{key}" for key in ("datasets=[gsm8k]", "held_out=[gsm8k]", "num_prompts=4", "epochs=1")]
    training += [f"training.{key}" for key in ("max_new_tokens=8", "max_prompt_tokens=900", "num_layers=1")]
    training += [f"training.data_dir={data}", f"training.output={place}"]
    done = run(tmp_path, *chosen, *training, "training=draft_lm", program=TRAIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"draft_model={place}")
    drafted = run(tmp_path, *chosen, "method=sps", f"draft_model={place}", "decode.max_new_tokens=6")
    assert drafted.returncode == 0, drafted.stderr
