"""Replays of a tiny model: what a recording gives is what the model gave."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.runner import Outcome
from benchmarks.together import Together
from corpora.loading import load_corpus
from methods.drafts import HEAD, MODEL
from methods.pipeline import assemble
from methods.record import record
from methods.recordings import recording_folder
from methods.replayable import replay_problems
from methods.schema import Settings
from methods.settings import compose, problems
from primitives.registry import DRAFTERS
from scripts import paper, report
from tests.unit.methods.conftest import save_small, small_run

COUNTED = (
    "output_ids", "text", "finish", "passes", "committed", "nodes", "depth", "proposed", "accepted", "candidates",
    "drafted_by", "pathways", "score",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    save_small(folder)
    settings = _job(folder, "sense_without_se", "datastore.layer=1")
    record(assemble(settings), load_corpus(settings.dataset, "test"))
    return folder


@pytest.fixture(scope="module")
def pair(place: Path) -> tuple[str, str]:
    """Folders of one method's runs, measured and replayed."""
    measured, replayed = (_run(_job(place, "pld", f"mode={mode}")) for mode in ("measure", "replay"))
    return str(measured.folder.path), str(replayed.folder.path)


def _job(place: Path, method: str, *changes: str) -> Settings:
    words = small_run(method, place / "tiny", place / "rows", place)
    changed = {change.split("=")[0] for change in changes}
    own = ["decode.max_new_tokens=40", "datastore.leaks=keep"]
    return compose([*(word for word in [*words, *own] if word.split("=")[0] not in changed), *changes])


def _run(settings: Settings) -> Outcome:
    together = Together()
    together.expect([settings], frozenset())
    return together(settings)


def _counted(outcome: Outcome) -> list[dict[str, Any]]:
    return [{key: sample[key] for key in ("id", "status", *COUNTED)} for sample in outcome.folder.read()]


def _same(live: Settings, replay: Settings) -> Outcome:
    measured, replayed = _run(live), _run(replay)
    assert replayed.summary["failed"] == 0
    assert _counted(replayed) == _counted(measured)
    return replayed


@pytest.mark.parametrize("drafter", DRAFTERS.names())
def test_every_drafter_drafts_in_a_replay_as_with_the_model_or_is_refused(place: Path, drafter: str) -> None:
    words = [f"drafter={drafter}", "datastore=id"]
    if DRAFTERS.asks_for(drafter, MODEL):
        words.append(f"draft_model={place / 'tiny'}")
    if DRAFTERS.asks_for(drafter, HEAD):
        pytest.skip("a draft head of a random model is no part of this test")
    try:
        live, replay = (_job(place, "vanilla", *words, f"mode={mode}") for mode in ("measure", "replay"))
        refused = problems(live)
    except ValueError as error:
        pytest.skip(str(error))
    if refused:
        pytest.skip(refused[0])
    if problems(replay):
        assert any("mode=replay cannot serve drafter" in problem for problem in problems(replay))
        assert drafter in {"token_recycling", "lookahead", "pruned"} or "embeddings" in str(problems(replay))
        return
    _same(live, replay)


def test_states_of_an_inner_layer_are_replayed_too(place: Path) -> None:
    live, replay = (
        _job(place, "sense_without_se", "datastore.layer=1", f"mode={mode}") for mode in ("measure", "replay")
    )
    _same(live, replay)
    missing = _job(place, "sense_without_se", "datastore.layer=0", "mode=replay")
    assemble(_job(place, "sense_without_se", "datastore.layer=0"))  # builds the store
    with pytest.raises(ValueError, match=r"layer 0, which the recording does not hold: run scripts\.record"):
        _run(missing)


def test_a_replay_says_so_and_has_no_times(place: Path) -> None:
    outcome = _run(_job(place, "pld", "mode=replay"))
    assert outcome.manifest["mode"] == "replay"
    assert outcome.manifest["config"]["mode"] == "replay"
    summary = outcome.summary
    assert summary["tau"]["value"] > 1
    assert summary["identical_share"] == 1.0
    nothing = ("speedup", "speedup_end_to_end", "speedup_mean_of_prompts")
    assert [summary[name]["value"] for name in nothing] == [None] * 3
    assert (summary["overhead"], summary["efficiency"]) == (None, None)
    assert set(summary["ms_per_pass"].values()) | set(summary["ms_per_token"].values()) == {None}
    assert {sample["decode_ms"] for sample in outcome.folder.read()} == {None}


def test_a_measured_run_keeps_the_hash_that_it_had_before_there_were_replays(place: Path) -> None:
    assert "mode" not in _run(_job(place, "pld")).manifest["config"]


def test_a_report_marks_a_replay_beside_a_measured_run(pair: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert report.main([*pair, f"out={out}"]) == 0
    html = out.read_text(encoding="utf-8")
    assert html.count('<span class="badge">replay</span>') == 1
    assert html.count('<span class="name">replay of pld</span>') == 1
    chart = re.findall(r'<desc id="chart-0-(speedup|tau)-words">(.*?)</desc>', html)
    assert [name for name, words in chart if "replay of pld" in words] == ["tau"]


def test_tables_of_a_replay_beside_a_measured_run(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "study", tmp_path / "out"
    for words in (["collect", *pair, f"out={study}"], ["figure7", "acceptance", f"runs={study}", f"out={out}"]):
        monkeypatch.setattr("sys.argv", ["paper", *words])
        assert paper.main() == 0, capsys.readouterr().err
    for name in ("figure7", "acceptance"):
        rows = pd.read_csv(out / f"{name}.csv")
        assert set(rows["Method"]) == {"PLD"}
        assert set(rows["runs"].dropna()) == {Path(pair[0]).name.removeprefix("pld-")}


def test_no_model_is_loaded_for_a_replay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assemble(_job(place, "sense_without_se"))  # builds the store
    monkeypatch.setattr("methods.loaded.load_model", lambda *_: pytest.fail("a model was loaded"))
    settings = _job(place, "sense_without_se", "mode=replay", "decode.max_new_tokens=40", "drafter.candidates=5")
    assert _run(settings).summary["n"] == 2


def test_prompts_that_were_not_recorded_fail_with_the_way_out(place: Path) -> None:
    outcome = _run(_job(place, "pld", "mode=replay", "dataset.num_samples=3"))
    (failed,) = (sample for sample in outcome.folder.read() if sample["status"] == "failed")
    assert "is not in the recording" in failed["reason"]
    assert "run scripts.record" in failed["reason"]


def test_without_a_recording_the_job_is_refused(place: Path) -> None:
    with pytest.raises(ValueError, match=r"mode=replay needs a recording, and .* holds none"):
        _run(_job(place, "pld", "mode=replay", "decode.max_new_tokens=39"))


def test_a_second_recording_adds_only_what_is_missing(place: Path) -> None:
    settings = _job(place, "pld")
    corpus = load_corpus(settings.dataset, "test")
    pipeline = assemble(settings)
    assert record(pipeline, corpus)[1] == 0
    file = next(recording_folder(settings).glob("*.safetensors"))
    content = file.read_bytes()
    file.write_bytes(content[:100])
    outcome = _run(_job(place, "pld", "mode=replay", "connector.max_nodes=7"))
    assert outcome.summary["failed"] == 1
    file.unlink()
    recording, added = record(pipeline, corpus)
    assert added == 1
    assert file.read_bytes() == content
    assert recording.facts["layers"] == [1]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["mode=replays"], "mode is 'replays': did you mean 'replay'?"),
        (["verifier=soft_gated"], "cannot serve verifier 'soft_gated'"),
        (["verifier=tree_sampling", "decode.temperature=1"], "set it to 0"),
        (["decode.repetition_penalty=1.1"], "set decode.repetition_penalty=1"),
        (["drafter=token_recycling"], "cannot serve drafter 'token_recycling'"),
        (["drafter=union", "drafter.drafters=[pld,lookahead]"], "cannot serve drafter 'lookahead'"),
        (["drafter=logitspec", "drafter.capacity=65"], "capacity=65"),
    ],
)
def test_what_a_recording_cannot_serve_is_refused(place: Path, words: list[str], problem: str) -> None:
    mode = [] if words[0].startswith("mode=") else ["mode=replay"]
    found = list(replay_problems(_job(place, "vanilla", *mode, *words)))
    assert any(problem in sentence for sentence in found)
    assert not list(replay_problems(_job(place, "vanilla", "mode=replay", "verifier=tree_sampling")))


def test_a_sweep_of_replays_runs_in_the_processes_of_joblib(place: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="the extra 'joblib' is not installed")
    words = [word for word in small_run("pld", place / "tiny", place / "rows", place) if "method" not in word]
    own = ["decode.max_new_tokens=40", "mode=replay", f"results_dir={place / 'results'}", "resume=false"]
    keys = {word.partition("=")[0] for word in own}
    sweep = ["-m", "method=vanilla,pld", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    command = [sys.executable, "run.py", *sweep, *(word for word in words if word.partition("=")[0] not in keys), *own]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "pld on gsm8k: 2/2 prompts" in done.stdout + done.stderr
    assert "vanilla on gsm8k: 2/2 prompts" in done.stdout + done.stderr
