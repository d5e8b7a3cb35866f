"""Run folders whose every token is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import RunFolder
from benchmarks.summary import summarise

_VOCABULARY: dict[str, int] = {}
WRONG = " wrong"
NASTY = ("</script><b>", "&amp;", "\u2028", "\U0001f600", " it's", ' "so"', "\n", "{{ 7 * 7 }}", "\\u003c", "]]>")


def ids_of(pieces: Sequence[str]) -> list[int]:
    return [_VOCABULARY.setdefault(piece, len(_VOCABULARY)) for piece in pieces]


def sample(
    name: str,
    pieces: Sequence[str],
    greedy: Sequence[str] | None = None,
    committed: Sequence[int] | None = None,
    ways: Sequence[Sequence[int]] | None = None,
    drafters: Sequence[str] = ("sen",),
    ms: float = 10.0,
    score: float | None = 1.0,
    **changes: Any,
) -> dict[str, Any]:
    """A line of samples.jsonl: each pass is the committed chain and one rejected node below its first token.

    Args:
        name: id of the prompt.
        pieces: texts of the tokens; an empty one is shown as <end>.
        greedy: those of plain decoding, None for the same.
        committed: tokens of each pass; the last token of a text needs none.
        ways: pathways of each pass.
        drafters: the sources; token k of a pass is drafted by source k - 1, counted round.
        ms: milliseconds of a pass; one of plain decoding takes 10.
        score: of both sides.
        changes: other keys.
    """
    greedy = pieces if greedy is None else greedy
    committed = [len(pieces) - 1] if committed is None else committed
    nodes = [count + 1 for count in committed]
    who = [["" if at == 0 else drafters[(at - 1) % len(drafters)] for at in range(count)] for count in committed]
    output, wrong = ids_of(pieces), ids_of([WRONG])[0]
    starts = [sum(committed[:place]) for place in range(len(committed))]
    bits = [[0, *(1 << (at - 1) % len(drafters) for at in range(1, count)), 1] for count in committed]
    trees = {
        "sources": list(drafters),
        "tokens": [t for at, n in zip(starts, committed, strict=True) for t in [*output[at : at + n], wrong]],
        "parents": [p for n in committed for p in [*range(-1, n - 1), 0]],
        "pending": [0] * len(committed),
        "drafted_by": [bit for each in bits for bit in each] if len(drafters) > 1 else None,
        "paths": [node for n in committed for node in range(n)],
    }
    length = len(committed)
    line = {
        "id": name,
        "status": "ok",
        "prompt_tokens": 7,
        "tokenise_ms": 0.1,
        **_side(pieces, ms * length, length),
        "candidates": [2] * length,
        "candidate_tokens": nodes,
        "proposed_nodes": [count + 3 for count in nodes],
        "nodes": nodes,
        "depth": committed,
        "proposed": [count - 1 for count in nodes],
        "accepted": [count - 1 for count in committed],
        "committed": list(committed),
        "pathways": [[0] * count for count in committed] if ways is None else [list(each) for each in ways],
        "drafted_by": who,
        **{f"{part}_ms": [ms / 4] * length for part in ("draft", "verify", "judge", "commit")},
        "score": score,
        "no_answer": score == 0,
        "lossless": None,
        "peak_rss_mb": 100.0,
        "token_texts": {str(ids_of([text])[0]): text or "<end>" for text in {*pieces, *greedy, WRONG}},
        "trees": trees,
        "baseline": {**_side(greedy, 10.0 * (len(greedy) - 1), len(greedy) - 1), "score": score, "no_answer": False},
    }
    return {**line, **changes}


def _side(pieces: Sequence[str], ms: float, passes: int) -> dict[str, Any]:
    return {
        "output_ids": ids_of(pieces),
        "text": "".join(pieces),
        "pieces": [len(piece) for piece in pieces],
        "finish": "length",
        "passes": passes,
        "prefill_ms": 5.0,
        "decode_ms": ms,
    }


def write_run(place: Path, samples: Sequence[dict[str, Any]], finished: bool = True, **changes: Any) -> Path:
    """Write a run folder; `changes` replace keys of its manifest."""
    manifest: dict[str, Any] = {
        "created": "2026-01-02T03:04:05+00:00",
        "config": {"verifier": {"name": "exact"}},
        "hash": "0123456789",
        "method": "sense",
        "drafter": "sen",
        "verifier": "soft_gated",
        "guarantee": "lossy",
        "model": "tiny",
        "dataset": {"name": "gsm8k", "metric": "number_accuracy", "source": "made up", **changes.pop("dataset", {})},
        "prompts": [line["id"] for line in samples],
        "device": "cpu",
        "dtype": "float32",
        **changes,
    }
    folder = RunFolder(place / f"{manifest['method']}-{manifest['hash']}")
    folder.begin(manifest, resume=False)
    for line in samples:
        folder.append(line)
    if finished:
        folder.finish(summarise(manifest, folder.samples()))
    return folder.path
