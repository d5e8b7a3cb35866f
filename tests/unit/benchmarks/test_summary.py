"""Every figure against a value worked out by hand."""

import json
from typing import Any

import pytest

from benchmarks.summary import summarise

KEYS = [
    "n", "failed", "tokens", "passes", "tau", "tau_macro", "accepted_per_pass", "speedup", "speedup_end_to_end",
    "speedup_mean_of_prompts", "overhead", "efficiency", "ms_per_pass", "ms_per_token", "quality", "identical_share",
    "mean_common_prefix", "distinct_n", "lossless", "nodes_per_pass", "compression", "pathways", "memory_mb",
]  # fmt: skip


def _manifest(**changes: Any) -> dict[str, Any]:
    manifest = {
        "prompts": ["a", "b", "c", "d", "e"],
        "guarantee": "exact",
        "dataset": {"metric": "number_accuracy"},
        "store_mb": 12.5,
    }
    return {**manifest, **changes}


def _sample(name: str, **changes: Any) -> dict[str, Any]:
    sample = {
        "id": name,
        "status": "ok",
        "output_ids": [1, 2, 3, 4, 5, 6],
        "finish": "length",
        "passes": 2,
        "prefill_ms": 10.0,
        "tokenise_ms": 1.0,
        "decode_ms": 30.0,
        "candidates": [3, 0],
        "candidate_tokens": [12, 0],
        "proposed_nodes": [9, 0],
        "nodes": [8, 1],
        "depth": [4, 1],
        "proposed": [7, 0],
        "accepted": [3, 0],
        "committed": [4, 1],
        "pathways": [[0, 0, 1, 2], [0]],
        "drafted_by": [["", "sen+pld", "sen", "sen"], [""]],
        "draft_ms": [1.0, 0.0],
        "verify_ms": [16.0, 8.0],
        "judge_ms": [2.0, 1.0],
        "commit_ms": [1.0, 1.0],
        "score": 1.0,
        "no_answer": False,
        "lossless": {"kind": "identical"},
        "peak_rss_mb": 100.0,
        "baseline": {
            "output_ids": [1, 2, 3, 4, 5, 6],
            "finish": "length",
            "passes": 5,
            "prefill_ms": 10.0,
            "decode_ms": 60.0,
            "score": 1.0,
            "no_answer": False,
        },
    }
    return {**sample, **changes}


def _failed(name: str) -> dict[str, Any]:
    return {"id": name, "status": "failed", "reason": "boom", "score": None, "baseline": None, "output_ids": None}


def _second() -> dict[str, Any]:
    """Leaves greedy after 3 of 8 tokens, loops, and takes one pass more."""
    base = {"output_ids": [9, 8, 7, 6, 5, 4, 3, 2], "finish": "eos", "passes": 7, "prefill_ms": 30.0, "decode_ms": 90.0}
    return _sample(
        "b",
        output_ids=[9, 8, 7, 7, 7, 7, 7, 7],
        finish="eos",
        passes=3,
        prefill_ms=40.0,
        decode_ms=40.0,
        candidate_tokens=[10, 0, 10],
        proposed_nodes=[10, 0, 5],
        nodes=[6, 1, 5],
        proposed=[5, 0, 4],
        accepted=[2, 0, 2],
        committed=[3, 1, 3],
        pathways=[[0, 3, 3], [0], [0, 2, 1]],
        depth=[3, 1, 4],
        drafted_by=[["", "pld", "pld"], [""], ["", "sen+pld", "pld"]],
        draft_ms=[1.0, 1.0, 1.0],
        verify_ms=[12.0, 8.0, 6.0],
        judge_ms=[1.0, 1.0, 1.0],
        commit_ms=[2.0, 2.0, 2.0],
        score=0.0,
        lossless={"kind": "near_tie"},
        peak_rss_mb=120.0,
        baseline={**base, "score": 1.0, "no_answer": False},
    )


@pytest.fixture
def summary() -> dict[str, Any]:
    return summarise(_manifest(prompts=["a", "b"]), [_sample("a"), _second()])


def test_every_key_of_the_result_format_is_there(summary: dict[str, Any]) -> None:
    assert list(summary)[: len(KEYS)] == KEYS


def test_counts(summary: dict[str, Any]) -> None:
    assert (summary["n"], summary["failed"], summary["tokens"], summary["passes"]) == (2, 0, 14, 5)


def test_tau_counts_what_passes_commit(summary: dict[str, Any]) -> None:
    assert summary["tau"]["value"] == pytest.approx(12 / 5)
    assert summary["tau_macro"]["value"] == pytest.approx((5 / 2 + 7 / 3) / 2)
    assert summary["accepted_per_pass"]["value"] == pytest.approx(7 / 5)
    assert summary["tau"]["low"] == pytest.approx(7 / 3)
    assert summary["tau"]["high"] == pytest.approx(5 / 2)


def test_speedup_is_time_per_generated_token(summary: dict[str, Any]) -> None:
    assert summary["ms_per_token"] == {"method": pytest.approx(70 / 14), "baseline": pytest.approx(150 / 14)}
    assert summary["speedup"]["value"] == pytest.approx(150 / 70)
    assert summary["speedup_end_to_end"]["value"] == pytest.approx(190 / 120)
    assert summary["speedup_mean_of_prompts"]["value"] == pytest.approx((60 / 30 + 90 / 40) / 2)
    assert summary["efficiency"] == pytest.approx((150 / 70) / (12 / 5))


def test_different_lengths_are_compared_per_token() -> None:
    longer = _sample("a", output_ids=list(range(12)), decode_ms=60.0)
    assert summarise(_manifest(), [longer])["speedup"]["value"] == pytest.approx((60 / 6) / (60 / 12))


def test_time_of_a_pass(summary: dict[str, Any]) -> None:
    assert summary["ms_per_pass"] == pytest.approx({"draft": 4 / 5, "verify": 10.0, "judge": 6 / 5, "commit": 8 / 5})
    assert summary["overhead"] == pytest.approx(1 / 3)  # the median pass


def test_quality_of_both_sides(summary: dict[str, Any]) -> None:
    quality = summary["quality"]
    assert (quality["metric"], quality["n"]) == ("accuracy", 2)
    assert (quality["method"], quality["baseline"], quality["ratio"]) == (0.5, 1.0, 0.5)
    assert quality["method_interval"] == [0.0, 1.0]
    assert quality["baseline_interval"] == [1.0, 1.0]


def test_likeness_to_greedy(summary: dict[str, Any]) -> None:
    assert summary["identical_share"] == 0.5
    assert summary["mean_common_prefix"] == (6 + 3) / 2
    # 9 8 7 7 | 8 7 7 7 | 7 7 7 7 three times: 3 different of 5.
    assert summary["distinct_n"] == {"method": pytest.approx((1 + 3 / 5) / 2), "baseline": 1.0}
    assert summary["lossless"] == {"identical": 1, "near_tie": 1, "mismatch": 0}


def test_trees_and_pathways(summary: dict[str, Any]) -> None:
    assert summary["nodes_per_pass"] == pytest.approx(21 / 5)
    assert summary["compression"] == pytest.approx(1 - 24 / 32)
    assert summary["pathways"] == {"exact": 6, "top_k": 2, "window": 2, "relaxed": 2}
    assert summary["empty_drafts"] == pytest.approx(2 / 5)


def test_an_accepted_token_counts_for_each_of_its_drafters(summary: dict[str, Any]) -> None:
    assert summary["drafted_by"] == {"pld": 5, "sen": 4}


def test_acceptance_by_depth_is_of_the_trees_that_were_so_deep(summary: dict[str, Any]) -> None:
    # (depth, committed): (4, 4) (1, 1) (3, 3) (1, 1) (4, 3).
    assert summary["acceptance_by_depth"] == [
        {"depth": 1, "passes": 5, "share": 1.0},
        {"depth": 2, "passes": 3, "share": 1.0},
        {"depth": 3, "passes": 3, "share": 1.0},
        {"depth": 4, "passes": 2, "share": 0.5},
    ]


def test_memory_and_cut_outputs(summary: dict[str, Any]) -> None:
    assert summary["memory_mb"] == {"peak_rss": 120.0, "store": 12.5}
    assert summary["cut"] == {"method": 1, "baseline": 1}


def test_acceptance_rate_divides_by_what_was_proposed() -> None:
    sample = _sample("a", passes=3, proposed=[4, 0, 1], accepted=[2, 0, 1])
    assert summarise(_manifest(), [sample])["acceptance_rate"] == pytest.approx(3 / 5)


def test_autoregressive_decoding_is_exactly_one() -> None:
    alone = _sample(
        "a", passes=5, committed=[1] * 5, accepted=[0] * 5, proposed=[0] * 5, nodes=[1] * 5, candidate_tokens=[0] * 5,
        proposed_nodes=[0] * 5, pathways=[[0]] * 5, drafted_by=[[""]] * 5, depth=[1] * 5, decode_ms=60.0,
    )  # fmt: skip
    summary = summarise(_manifest(), [alone])
    assert (summary["tau"]["value"], summary["speedup"]["value"], summary["accepted_per_pass"]["value"]) == (
        1.0,
        1.0,
        0.0,
    )
    assert (summary["compression"], summary["acceptance_rate"], summary["empty_drafts"]) == (None, None, 1.0)
    assert (summary["drafted_by"], len(summary["acceptance_by_depth"])) == ({}, 1)


def test_failed_prompts_are_in_no_mean_but_wrong_in_accuracy() -> None:
    whole = summarise(_manifest(), [_sample(name) for name in "acde"])
    broken = summarise(_manifest(), [_failed("b"), *(_sample(name) for name in "acde")])
    assert (broken["n"], broken["failed"]) == (4, 1)
    assert (broken["quality"]["n"], broken["quality"]["method"]) == (5, 0.8)
    assert broken["quality"]["failed_prompts"] == "wrong"
    for key in set(whole) - {"failed", "quality"}:
        assert broken[key] == whole[key]


def test_outputs_without_an_answer_are_counted_apart() -> None:
    silent = _sample("b", score=0.0, no_answer=True)
    quality = summarise(_manifest(), [_sample("a"), silent, _failed("c")])["quality"]
    assert quality["no_answer"] == {"method": 1, "baseline": 0}
    assert (quality["n"], quality["method"]) == (3, pytest.approx(1 / 3))
    assert summarise(_manifest(dataset={"metric": "rouge_l"}), [_sample("a")])["quality"]["no_answer"] is None


def test_prompts_without_reference_are_in_no_figure_of_quality() -> None:
    with_reference = [_sample("a", no_answer=True, score=0.0), {**_failed("b"), "referenced": True}]
    unscored = _sample("c", score=None, no_answer=True)
    unscored["baseline"] = {**unscored["baseline"], "score": None, "no_answer": True}
    without = [unscored, {**_failed("d"), "referenced": False}]
    quality = summarise(_manifest(), [*with_reference, *without])["quality"]
    assert quality == summarise(_manifest(), with_reference)["quality"]
    assert (quality["n"], quality["no_answer"]) == (2, {"method": 1, "baseline": 0})


def test_containment_is_a_figure_beside_exact_match() -> None:
    manifest = _manifest(dataset={"metric": "answer_accuracy"})
    samples = [_sample("a", contains_answer=1.0), _sample("b", score=0.0, contains_answer=1.0)]
    for sample, found in zip(samples, (1.0, 0.0), strict=True):
        sample["baseline"] = {**sample["baseline"], "contains_answer": found}
    quality = summarise(manifest, samples)["quality"]
    assert (quality["metric"], quality["method"], quality["baseline"]) == ("accuracy", 0.5, 1.0)
    contained = quality["contains_answer"]
    assert (contained["method"], contained["baseline"]) == (1.0, 0.5)
    assert contained["baseline_interval"] == [0.0, 1.0]


def test_figures_of_each_category() -> None:
    samples = [_sample("a", category="qa"), {**_second(), "category": "rag"}, {**_failed("c"), "category": "rag"}]
    summary = summarise(_manifest(), samples)
    assert summary["categories"] == {
        "qa": {"n": 1, "failed": 0, "tau": _alone(5 / 2), "speedup": _alone(60 / 30)},
        "rag": {"n": 1, "failed": 1, "tau": _alone(7 / 3), "speedup": _alone(90 / 40)},
    }
    assert summarise(_manifest(), [_sample("a")])["categories"] is None


def _alone(value: float) -> Any:
    """A figure of one prompt, which has no interval."""
    return {"value": pytest.approx(value), "low": None, "high": None}


def test_failed_prompts_stay_out_of_rouge() -> None:
    manifest = _manifest(dataset={"metric": "rouge_l"})
    quality = summarise(manifest, [_failed("b"), _sample("a", score=0.4), _sample("c", score=None)])["quality"]
    assert (quality["n"], quality["method"], quality["failed_prompts"]) == (1, 0.4, "left out")


def test_nothing_but_failures_is_null_everywhere() -> None:
    summary = summarise(_manifest(), [_failed("a"), _failed("b")])
    assert (summary["n"], summary["failed"], summary["quality"]["method"]) == (0, 2, 0.0)
    for key in ("tau", "speedup", "speedup_end_to_end", "speedup_mean_of_prompts", "accepted_per_pass", "tau_macro"):
        assert summary[key] == {"value": None, "low": None, "high": None}
    for key in ("overhead", "efficiency", "identical_share", "mean_common_prefix", "lossless", "compression"):
        assert summary[key] is None
    assert (summary["acceptance_by_depth"], summary["drafted_by"], summary["empty_drafts"]) == ([], {}, None)
    json.dumps(summary, allow_nan=False)


def test_a_prompt_without_a_pass_is_no_division_by_zero() -> None:
    arrays = {key: list[Any]() for key, value in _sample("a").items() if isinstance(value, list)}
    ended = _sample("b", passes=0, decode_ms=0.5, **{**arrays, "output_ids": [2]})
    summary = summarise(_manifest(), [_sample("a"), ended])
    assert summary["tau"]["value"] == summary["tau_macro"]["value"] == 2.5
    json.dumps(summary, allow_nan=False)


def test_lossy_methods_have_no_lossless_verdict() -> None:
    assert summarise(_manifest(guarantee="lossy"), [_sample("a", lossless=None)])["lossless"] is None


def test_order_of_lines_changes_nothing() -> None:
    samples = [_sample("a"), _second(), _sample("c", decode_ms=11.0)]
    assert summarise(_manifest(), samples) == summarise(_manifest(), samples[::-1])
