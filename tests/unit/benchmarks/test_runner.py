import logging
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from rich.console import Console

from benchmarks.runner import Outcome, Stopped, run_benchmark, run_together
from benchmarks.table import Finished, results_table
from benchmarks.turns import said_in
from connectors.trace import Generation
from corpora.corpus import Corpus
from corpora.example import Example

Make = Callable[..., Generation]


def _run(pipeline: Any, corpus: Corpus) -> tuple[Outcome, str]:
    output = StringIO()
    console = Console(file=output, width=100)
    outcome = run_benchmark(pipeline, corpus, console)
    console.print(results_table([Finished(outcome.manifest, outcome.summary)]))
    return outcome, output.getvalue()


def _calls(pipeline: Any) -> list[tuple[str, int]]:
    """(side, prompt) of the counted generations, in order."""
    return [(side, prompt) for side, prompt, budget in pipeline.calls if budget == 6]


def test_a_run_leaves_all_its_files(pipeline: Any, corpus: Corpus) -> None:
    outcome, output = _run(pipeline, corpus)
    names = sorted(path.name for path in outcome.folder.path.iterdir())
    assert [name for name in names if name != ".lock"] == ["log.txt", "manifest.json", "samples.jsonl", "summary.json"]
    assert outcome.exit_code == 0
    assert outcome.folder.summary() == outcome.summary
    assert str(outcome.folder.path) in output
    assert (outcome.summary["n"], outcome.summary["tau"]["value"]) == (5, 2.5)
    assert outcome.summary["speedup"]["value"] == pytest.approx(2.5)
    assert outcome.summary["speedup_end_to_end"]["value"] == pytest.approx(55 / 25)
    assert outcome.summary["quality"]["method"] == 1.0


def test_the_manifest_says_what_the_run_is_made_of(pipeline: Any, corpus: Corpus) -> None:
    manifest = _run(pipeline, corpus)[0].folder.manifest()
    assert manifest is not None
    assert manifest["config"]["decode"]["max_new_tokens"] == 6
    assert (manifest["device"], manifest["dtype"]) == ("cpu", "bfloat16")
    assert manifest["fingerprints"] == {**pipeline.fingerprints, "dataset": corpus.fingerprint}
    assert manifest["dataset"]["name"] == "gsm8k-mini"
    assert manifest["prompts"] == [example.id for example in corpus.examples]
    assert {"python", "torch", "transformers"} <= manifest["versions"].keys()


def test_warm_up_comes_first_and_sides_take_turns(pipeline: Any, corpus: Corpus) -> None:
    _run(pipeline, corpus)
    warm_up, counted = pipeline.calls[:4], pipeline.calls[4:]
    assert sorted(side for side, _, _ in warm_up) == ["baseline", "baseline", "method", "method"]
    assert [budget for _, _, budget in counted] == [6] * 10
    assert [(side, prompt) for side, prompt, _ in counted] == [
        ("baseline", 0), ("method", 0), ("method", 1), ("baseline", 1), ("baseline", 2), ("method", 2),
        ("method", 3), ("baseline", 3), ("baseline", 4), ("method", 4),
    ]  # fmt: skip


def test_a_line_holds_every_key_of_the_result_format(pipeline: Any, corpus: Corpus) -> None:
    sample = _run(pipeline, corpus)[0].folder.samples()[0]
    assert sample["id"] == "test-0"
    assert sample["prompt_tokens"] == 2
    assert sample["output_ids"] == [1, 2, 3, 4, 5, 6]
    assert (sample["passes"], sample["prefill_ms"], sample["decode_ms"], sample["score"]) == (2, 5.0, 20.0, 1.0)
    assert (sample["committed"], sample["nodes"], sample["pathways"]) == ([3, 2], [5, 5], [[0, 0, 0], [0, 0]])
    assert sample["decode_ms"] == sum(sum(sample[f"{part}_ms"]) for part in ("draft", "verify", "judge", "commit"))
    assert {"candidate_tokens", "proposed_nodes", "depth", "proposed", "accepted"} <= sample.keys()
    assert sample["baseline"]["passes"] == 5
    assert {"output_ids", "text", "prefill_ms", "decode_ms", "score"} <= sample["baseline"].keys()
    assert sample["lossless"]["kind"] == "identical"


def test_a_failing_prompt_has_a_reason_and_no_figures(pipeline: Any, corpus: Corpus, make_generation: Make) -> None:
    for prompt, error in ((0, ValueError("bad prompt")), (2, MemoryError("out of memory"))):
        pipeline.set(prompt, error, make_generation(range(1, 7), [1] * 5))
    outcome, output = _run(pipeline, corpus)
    failed = [sample for sample in outcome.folder.samples() if sample["status"] == "failed"]
    assert [sample["reason"] for sample in failed] == ["ValueError: bad prompt", "MemoryError: out of memory"]
    assert all(
        value is None
        for sample in failed
        for key, value in sample.items()
        if key not in {"id", "status", "reason", "referenced"}
    )
    assert [sample["referenced"] for sample in failed] == [True, True]
    assert (outcome.summary["n"], outcome.summary["failed"], outcome.exit_code) == (3, 2, 1)
    assert outcome.summary["tau"]["value"] == 2.5
    assert outcome.summary["quality"]["method"] == pytest.approx(3 / 5)
    assert "3 of 5" in output
    assert "test-0 failed: ValueError: bad prompt" in output
    log = outcome.folder.log.read_text()
    assert "Traceback" in log
    assert "MemoryError: out of memory" in log


def test_a_failed_prompt_is_tried_again_and_the_rest_is_kept(
    pipeline: Any, corpus: Corpus, make_generation: Make
) -> None:
    pipeline.set(3, RuntimeError("once"), make_generation(range(1, 7), [1] * 5))
    assert _run(pipeline, corpus)[0].exit_code == 1
    pipeline.set(3, make_generation(range(1, 7), [3, 2]), make_generation(range(1, 7), [1] * 5))
    pipeline.calls.clear()
    outcome, _ = _run(pipeline, corpus)
    assert {prompt for _, prompt in _calls(pipeline)} == {3}
    assert (outcome.exit_code, outcome.summary["n"]) == (0, 5)
    assert sorted(sample["id"] for sample in outcome.folder.samples()) == [f"test-{i}" for i in range(5)]


def test_an_interrupted_run_keeps_what_is_finished(pipeline: Any, corpus: Corpus, make_generation: Make) -> None:
    base = make_generation(range(1, 7), [1] * 5)
    pipeline.set(3, KeyboardInterrupt(), base)
    output = StringIO()
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(pipeline, corpus, Console(file=output, width=100))
    assert "stopped after 3 of 5 prompts; they are kept in" in output.getvalue()
    folder = next(Path(pipeline.settings.results_dir).glob("runs/*/*/*"))
    assert len((folder / "samples.jsonl").read_text().splitlines()) == 3
    assert not (folder / "summary.json").exists()

    pipeline.set(3, make_generation(range(1, 7), [3, 2]), base)
    pipeline.calls.clear()
    outcome, _ = _run(pipeline, corpus)
    assert _calls(pipeline) == [("method", 3), ("baseline", 3), ("baseline", 4), ("method", 4)]
    assert [sample["id"] for sample in outcome.folder.samples()] == [f"test-{i}" for i in range(5)]


def test_a_torn_line_is_run_again(pipeline: Any, corpus: Corpus) -> None:
    first, _ = _run(pipeline, corpus)
    path = first.folder.path / "samples.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    pipeline.calls.clear()
    again, output = _run(pipeline, corpus)
    assert "goes on after 4 of 5 prompts, which are kept" in output
    assert {prompt for _, prompt in _calls(pipeline)} == {4}
    assert again.summary["tau"] == first.summary["tau"]
    assert again.summary["n"] == 5


def test_a_finished_run_is_reused(pipeline: Any, corpus: Corpus) -> None:
    first, _ = _run(pipeline, corpus)
    pipeline.calls.clear()
    again, output = _run(pipeline, corpus)
    assert pipeline.calls == []
    assert again.reused
    assert again.summary == first.summary
    assert "finished before, kept" in output
    pipeline.settings = replace(pipeline.settings, resume=False)
    assert not _run(pipeline, corpus)[0].reused
    assert len(_calls(pipeline)) == 10


def test_other_weights_are_not_mixed_in(pipeline: Any, corpus: Corpus) -> None:
    _run(pipeline, corpus)
    pipeline.fingerprints["model"] = "m2"
    with pytest.raises(ValueError, match="holds a run with other fingerprints; set resume=false"):
        _run(pipeline, corpus)


def test_two_processes_do_not_share_a_run(pipeline: Any, corpus: Corpus) -> None:
    folder = _run(pipeline, corpus)[0].folder
    with (
        FileLock(folder.path / ".lock"),
        pytest.raises(ValueError, match="another process is working on this very run"),
    ):
        _run(pipeline, corpus)


def test_a_diverging_output_gets_a_verdict(pipeline: Any, corpus: Corpus, make_generation: Make) -> None:
    pipeline.set(1, make_generation([1, 2, 9, 9, 9, 6], [3, 2]), make_generation(range(1, 7), [1] * 5))
    outcome, output = _run(pipeline, corpus)
    verdict = outcome.folder.samples()[1]["lossless"]
    assert (verdict["kind"], verdict["position"], verdict["tokens"]) == ("mismatch", 2, [9, 3])
    assert outcome.summary["lossless"] == {"identical": 4, "near_tie": 0, "mismatch": 1}
    assert "1 MISMATCH" in output
    assert "not what the target chooses" in outcome.folder.log.read_text()


@pytest.mark.parametrize(("guarantee", "temperature"), [("lossy", 0.0), ("distribution", 0.0), ("exact", 0.7)])
def test_no_verdict_where_no_identity_is_promised(
    pipeline: Any, corpus: Corpus, guarantee: str, temperature: float
) -> None:
    pipeline.guarantee = guarantee
    pipeline.settings.decode.temperature = temperature
    outcome, _ = _run(pipeline, corpus)
    assert outcome.summary["lossless"] is None
    assert outcome.folder.samples()[0]["lossless"] is None


def test_an_unknown_metric_is_refused_before_anything_is_written(pipeline: Any, corpus: Corpus) -> None:
    pipeline.settings.dataset.metric = "bleu"
    with pytest.raises(ValueError, match=r"dataset.metric 'bleu'"):
        _run(pipeline, corpus)
    assert not Path(pipeline.settings.results_dir).exists()


def test_prompts_with_nothing_to_compare_with_have_no_quality(pipeline: Any, corpus: Corpus) -> None:
    pipeline.settings.dataset.metric = None
    outcome, output = _run(pipeline, corpus)
    assert outcome.summary["quality"] is None
    sample = outcome.folder.samples()[0]
    assert (sample["score"], sample["no_answer"], sample["baseline"]["score"]) == (None, None, None)
    assert outcome.summary["tau"]["value"] == 2.5
    assert "no metric: these prompts have nothing to compare an output with" in output


def test_a_drafter_that_never_wins_is_pointed_out(
    pipeline: Any, corpus: Corpus, make_generation: Make, caplog: pytest.LogCaptureFixture
) -> None:
    for prompt in range(5):
        pipeline.set(prompt, make_generation(range(1, 7), [1] * 12), make_generation(range(1, 7), [1] * 5))
    with caplog.at_level(logging.WARNING):
        _run(pipeline, corpus)
    assert "no drafted token was accepted in 60 passes" in caplog.text


def test_progress_without_a_terminal_is_plain_lines(pipeline: Any, corpus: Corpus) -> None:
    _, output = _run(pipeline, corpus)
    assert "pld on gsm8k-mini: 5/5 prompts, speedup 2.50, tau 2.50" in output
    assert "\x1b" not in output


@pytest.fixture
def three(pipeline: Any, make_generation: Make) -> list[Any]:
    """Three methods over one target; the calls of all are noted in one list."""
    pipelines = [pipeline]
    for name in ("sam", "rest"):
        other = type(pipeline)(Path(pipeline.settings.results_dir))
        other.settings.method.name, other.calls = name, pipeline.calls
        for side, called in ((other.connector, name), (other.baseline, f"baseline of {name}")):
            side.calls, side.name = pipeline.calls, called
        for prompt in range(5):
            other.set(prompt, make_generation(range(1, 7), [5]), make_generation(range(1, 7), [1] * 5))
        pipelines.append(other)
    return pipelines


def _together(pipelines: list[Any], corpus: Corpus, **options: Any) -> list[Outcome | Exception]:
    return run_together(pipelines, corpus, Console(file=StringIO(), width=100), **options)


def test_one_baseline_serves_several_methods_in_turns(three: list[Any], corpus: Corpus) -> None:
    outcomes = _together(three, corpus)
    assert _calls(three[0])[:8] == [
        ("baseline", 0), ("method", 0), ("sam", 0), ("rest", 0),
        ("method", 1), ("sam", 1), ("rest", 1), ("baseline", 1),
    ]  # fmt: skip
    assert len(_calls(three[0])) == 5 * 4
    assert [round(end.summary["speedup"]["value"], 3) for end in outcomes if isinstance(end, Outcome)] == [2.5, 5, 5]
    logs = [end.folder.log.read_text() for end in outcomes if isinstance(end, Outcome)]
    assert [log.count("prompt test-0: ") for log in logs] == [1, 1, 1]


def test_a_stopped_group_goes_on_where_each_run_is(three: list[Any], corpus: Corpus, make_generation: Make) -> None:
    _together(three[:1], corpus)
    three[1].set(2, KeyboardInterrupt(), make_generation(range(1, 7), [1] * 5))
    with pytest.raises(KeyboardInterrupt):
        _together(three, corpus)
    three[1].set(2, make_generation(range(1, 7), [5]), make_generation(range(1, 7), [1] * 5))
    three[0].calls.clear()
    outcomes = _together(three, corpus)
    assert {call for call in _calls(three[0]) if "baseline" not in call[0]} == {
        (name, prompt) for name in ("sam", "rest") for prompt in (2, 3, 4)
    }
    assert [end.summary["n"] for end in outcomes if isinstance(end, Outcome)] == [5, 5, 5]


def test_a_method_that_fails_takes_no_other_with_it(three: list[Any], corpus: Corpus, make_generation: Make) -> None:
    three[1].set(1, RuntimeError("once"), make_generation(range(1, 7), [1] * 5))
    three[2].settings.dataset.metric = "bleu"
    outcomes = _together(three, corpus)
    assert [end.summary["failed"] for end in outcomes if isinstance(end, Outcome)] == [0, 1]
    assert isinstance(outcomes[2], ValueError)


def test_a_group_can_stop_at_the_first_failure(three: list[Any], corpus: Corpus, make_generation: Make) -> None:
    three[1].set(1, RuntimeError("once"), make_generation(range(1, 7), [1] * 5))
    outcomes = _together(three, corpus, stop=True)
    assert [type(end) for end in outcomes] == [Stopped, ValueError, Stopped]
    assert {prompt for _, prompt in _calls(three[0])} == {0, 1}
    three[1].set(1, make_generation(range(1, 7), [5]), make_generation(range(1, 7), [1] * 5))
    three[0].calls.clear()
    assert [end.exit_code for end in _together(three, corpus) if isinstance(end, Outcome)] == [0, 0, 0]
    assert ("sam", 1) in _calls(three[0])
    assert ("method", 1) not in _calls(three[0])


def test_settings_that_mean_the_same_run_share_it(pipeline: Any, corpus: Corpus) -> None:
    first, second = _together([pipeline, pipeline], corpus)
    assert first is second
    assert len(_calls(pipeline)) == 10


def test_the_number_of_the_one_at_work_is_told(three: list[Any], corpus: Corpus) -> None:
    at_work: list[int] = []
    _together(three, corpus, turn=at_work.append)
    assert at_work[:3] == [0, 1, 2]
    assert set(at_work) == {0, 1, 2}


def test_a_drafter_that_learns_from_text_to_text_is_warmed_up_by_another_and_reads_again_after_a_stop(
    pipeline: Any, corpus: Corpus, make_generation: Make
) -> None:
    pipeline.connector.drafter.remembers = True
    base = make_generation(range(1, 7), [1] * 5)
    pipeline.set(3, KeyboardInterrupt(), base)
    with pytest.raises(KeyboardInterrupt):
        _run(pipeline, corpus)
    assert {name for name, _, budget in pipeline.calls if budget != 6} == {"spare", "baseline"}
    pipeline.set(3, make_generation(range(1, 7), [3, 2]), base)
    pipeline.calls.clear()
    _run(pipeline, corpus)
    assert [prompt for name, prompt in _calls(pipeline) if name == "method"] == [0, 1, 2, 3, 4]
    assert [prompt for name, prompt in _calls(pipeline) if name == "baseline"] == [3, 4]


def _talk(pipeline: Any, make_generation: Make) -> Corpus:
    """Prompt 0 has a second turn, which says 7; the sides give different answers to the first."""
    pipeline.set(0, make_generation([1, 2, 3, 9, 9, 9], [3, 2], "own"), make_generation(range(1, 7), [1] * 5, "plain"))
    pipeline.set(7, make_generation([7, 8, 9], [2]), make_generation([7, 8, 9], [1] * 2))
    talk = Example("talk", "0", "", ("6",), "chat", ("7",))
    return Corpus([talk, Example("short", "1", "6", ("6",), "sums")], "talks", "made up")


def test_a_second_turn_goes_on_from_the_baselines_answer(pipeline: Any, make_generation: Make) -> None:
    corpus = _talk(pipeline, make_generation)
    outcome, output = _run(pipeline, corpus)
    assert _calls(pipeline) == [
        ("baseline", 0), ("method", 0), ("baseline", 7), ("method", 7), ("method", 1), ("baseline", 1),
    ]  # fmt: skip
    assert [earlier for text, earlier in pipeline.earlier if text == "7"] == [[("0", "plain")]] * 2
    sample = outcome.folder.samples()[0]
    assert (sample["id"], sample["category"], sample["prompt_tokens"]) == ("talk", "chat", 4)
    assert sample["output_ids"] == [1, 2, 3, 9, 9, 9, 7, 8, 9]
    assert (sample["passes"], sample["committed"], sample["prefill_ms"], sample["decode_ms"]) == (3, [3, 2, 2], 10, 30)
    assert sample["turns"] == [
        {"tokens": 6, "characters": 3, "passes": 2},
        {"tokens": 3, "characters": 15, "passes": 1},
    ]
    assert sample["baseline"]["turns"][0] == {"tokens": 6, "characters": 5, "passes": 5}
    assert said_in(sample["baseline"]) == ["plain"]
    assert (sample["lossless"]["kind"], sample["lossless"]["position"]) == ("mismatch", 3)
    assert outcome.folder.samples()[1]["turns"] is None
    assert (outcome.summary["n"], outcome.summary["tokens"]) == (2, 15)
    assert outcome.summary["categories"]["chat"]["n"] == 1
    assert outcome.summary["categories"]["chat"]["tau"]["value"] == pytest.approx(7 / 3)
    assert outcome.summary["categories"]["sums"]["tau"]["value"] == 2.5
    assert "- chat" in output


@pytest.mark.parametrize("fails", ["method", "baseline"])
def test_a_turn_that_fails_fails_the_prompt_and_it_alone(pipeline: Any, make_generation: Make, fails: str) -> None:
    corpus = _talk(pipeline, make_generation)
    sides = {"method": pipeline.connector, "baseline": pipeline.baseline}
    sides[fails].answers[7] = RuntimeError("second turn")
    outcome, _ = _run(pipeline, corpus)
    failed, fine = outcome.folder.samples()
    assert (failed["id"], failed["status"], failed["category"]) == ("talk", "failed", "chat")
    assert failed["reason"] == "RuntimeError: second turn"
    assert (fine["id"], fine["status"]) == ("short", "ok")
    assert (outcome.summary["n"], outcome.summary["failed"]) == (1, 1)
    chat = outcome.summary["categories"]["chat"]
    assert (chat["n"], chat["failed"], chat["tau"]["value"]) == (0, 1, None)
    sides[fails].answers[7] = make_generation([7, 8, 9], [2])
    pipeline.calls.clear()
    again, _ = _run(pipeline, corpus)
    assert {prompt for _, prompt in _calls(pipeline)} == {0, 7}
    assert sorted(sample["id"] for sample in again.folder.samples()) == ["short", "talk"]
    assert (again.summary["n"], again.summary["failed"]) == (2, 0)


def test_a_baseline_that_fails_in_the_first_turn_ends_the_prompt(pipeline: Any, make_generation: Make) -> None:
    corpus = _talk(pipeline, make_generation)
    pipeline.baseline.answers[0] = RuntimeError("first turn")
    outcome, _ = _run(pipeline, corpus)
    assert ("method", 7) not in _calls(pipeline)
    assert outcome.folder.samples()[0]["reason"] == "RuntimeError: first turn"


def test_a_drafter_that_remembers_reads_both_turns_again(pipeline: Any, make_generation: Make) -> None:
    corpus = _talk(pipeline, make_generation)
    pipeline.connector.answers[1] = RuntimeError("once")
    _run(pipeline, corpus)
    pipeline.connector.answers[1] = make_generation(range(1, 7), [3, 2])
    pipeline.connector.drafter.remembers = True
    pipeline.calls.clear()
    pipeline.earlier.clear()
    _run(pipeline, corpus)
    assert _calls(pipeline) == [("method", 0), ("method", 7), ("method", 1), ("baseline", 1)]
    assert ("7", [("0", "plain")]) in pipeline.earlier
