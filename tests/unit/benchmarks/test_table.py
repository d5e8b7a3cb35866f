import os
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from benchmarks.table import Finished, Unfinished, results_table

LONG = (
    "of the project's own writing (openai/gsm8k is not in the hub's cache, and https://huggingface.co does not answer)"
)


def _contents(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    manifest = {
        "method": changes.get("method", "sense"),
        "drafter": "sen",
        "verifier": changes.get("verifier", "soft_gated"),
        "guarantee": changes.get("guarantee", "lossy"),
        "model": changes.get("model", "smollm2-135m"),
        "dataset": {"name": "gsm8k-mini", "source": f"a small set {LONG}"},
    }
    summary = {
        "n": changes.get("n", 5),
        "failed": changes.get("failed", 0),
        "speedup": {"value": 3.5, "low": 3.111, "high": 13.949},
        "tau": {"value": 8.38, "low": None, "high": None},
        "nodes_per_pass": 21.25,
        "ms_per_pass": {"draft": 1.54},
        "quality": {
            "metric": "accuracy",
            "method": 0.4,
            "baseline": 0.45,
            "n": 5,
            "failed_prompts": "wrong",
            "method_interval": [0.2, 0.6],
        },
        "identical_share": 0.125,
        "distinct_n": {"method": changes.get("distinct", 0.33), "baseline": 0.62},
        "lossless": changes.get("lossless"),
        "cut": {"method": 3},
    }
    return manifest, summary


def _run(**changes: Any) -> Finished:
    return Finished(*_contents(**changes), changes.get("differs", ()))


def _text(*runs: Finished, width: int = 80) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(results_table(runs))
    return capture.get()


@pytest.mark.parametrize("width", [80, 100])
def test_a_plain_terminal_shows_every_figure_whole(width: int) -> None:
    text = _text(_run(n=4, failed=1, method="sense"), width=width)
    assert max(map(len, text.splitlines())) <= width
    for piece in (
        "gsm8k-mini", "smollm2-135m", "4 of 5", "sense", "sen ", "+ soft_gated", "lossy", "3.50", "[3.11,13.95]",
        "8.38", "21.2 nodes", "draft 1.5 ms", "0.40/0.45", "[0.20,0.60]", "accuracy", "n=5, 3 cut", "12% same",
        "distinct-4", "0.33*/0.62",
    ):  # fmt: skip
        assert piece in text, piece


def test_looping_text_gets_a_note_in_words() -> None:
    assert "the text repeats itself" in " ".join(_text(_run()).split())
    clean = _text(_run(distinct=0.6))
    assert "*" not in clean
    assert "repeats" not in clean


def test_a_store_that_repeats_the_test_split_marks_its_row() -> None:
    manifest, summary = _contents()
    stores: tuple[Any, ...] = ({"overlap": 0}, None)
    clean = _text(*(Finished(manifest | {"datastore": store}, summary) for store in stores))
    assert "OVERLAP" not in clean
    marked = _text(Finished(manifest | {"datastore": {"overlap": 3}}, summary), _run(method="pld"))
    assert marked.count("OVERLAP") == 2
    assert "OVERLAP: the store holds documents that repeat the test split" in " ".join(marked.split())


def test_notes_are_given_once_and_only_when_they_apply() -> None:
    text = " ".join(_text(_run(), _run(method="pld", verifier="exact", guarantee="exact")).split())
    assert text.count(LONG) == 1
    assert text.count("lossy: the output may differ") == 1
    assert "failed prompts" not in text
    assert "failed prompts are in no figure but quality" in " ".join(_text(_run(failed=1)).split())
    assert "lossy" not in _text(_run(guarantee="exact"))


def test_lossless_verdicts_are_shown_when_not_all_are_identical() -> None:
    text = _text(_run(guarantee="exact", lossless={"identical": 3, "near_tie": 1, "mismatch": 1}))
    assert "1 near-tie" in text
    assert "1 MISMATCH" in text
    assert "near-tie" not in _text(_run(guarantee="exact", lossless={"identical": 5, "near_tie": 0, "mismatch": 0}))


def test_what_else_is_known_of_the_answers() -> None:
    manifest, summary = _contents()
    beside = {"no_answer": {"method": 2, "baseline": 0}, "contains_answer": {"method": 0.8, "baseline": 0.75}}
    text = _text(Finished(manifest, summary | {"quality": summary["quality"] | beside}))
    for piece in ("2 no answer", "contained", "0.80/0.75", "they count as wrong", "the score is exact match"):
        assert piece in " ".join(text.split()), piece
    assert "no answer" not in _text(Finished(manifest, summary))


def test_each_category_has_a_line_of_its_own() -> None:
    manifest, summary = _contents()
    figure = {"value": 2.25, "low": 2.0, "high": 2.5}
    parts = {"translation": {"n": 3, "failed": 1, "tau": figure, "speedup": {**figure, "value": 1.75}}}
    lines = _text(Finished(manifest, summary | {"categories": parts})).splitlines()
    (place,) = [number for number, line in enumerate(lines) if "- translation" in line]
    assert lines[place].split() == ["-", "translation", "1.75", "2.25"]
    assert lines[place + 1].split() == ["3", "of", "4", "[2.00,2.50]", "[2.00,2.50]"]


def test_raw_names_are_shown_whole_and_are_no_markup() -> None:
    text = _text(_run(model="org/[bold]a-very-long-name-1.5[/bold]"))
    width = text.splitlines()[1].index("method")
    cells = "".join(line[:width].strip() for line in text.splitlines())
    assert "org/[bold]a-very-long-name-1.5[/bold]" in cells


def test_missing_figures_are_dashes() -> None:
    manifest, summary = _contents(n=0, failed=5)
    nothing = {"value": None, "low": None, "high": None}
    distinct = {"method": None, "baseline": None}
    summary |= {"speedup": nothing, "tau": nothing, "identical_share": None, "distinct_n": distinct}
    summary |= {"nodes_per_pass": None, "ms_per_pass": {"draft": None}}
    text = _text(Finished(manifest, summary))
    assert "0 of 5" in text
    assert "-/-" in text


def test_a_job_without_a_result_is_a_row_with_its_reason() -> None:
    console = Console(file=StringIO(), width=80)
    reason = "decode.seed is 1; it must be another one, and this sentence goes on for longer than a column is wide"
    console.print(
        results_table(
            [_run()],
            [Unfinished("gsm8k", "org/name-1.5", "rest", reason, ("decode.seed=1",), os.path.abspath("a/run.log"))],
        )
    )
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert "org/name-1.5" in output
    words = " ".join("".join(line) for line in output.splitlines()).split()
    assert {"FAILED:", "decode.seed=1"} <= set(words)
    assert "log of rest decode.seed=1: a/run.log" in output
    assert [word for word in reason.split() if word not in words] == []


def test_rows_of_one_name_show_where_they_differ() -> None:
    text = _text(_run(differs=("verifier.k=2",)), _run(differs=("verifier.k=4",)))
    assert "verifier.k=2" in text
    assert "verifier.k=4" in text
