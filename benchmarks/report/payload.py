"""A sample as the token viewer reads it: every token's text, how it was made, and the tree of every pass."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

from benchmarks.statistics import common_prefix

Sample = Mapping[str, Any]

_PLAIN, _LAST = 4, 5


def packed(sample: Sample) -> str:
    """Return the sample as compressed JSON (raw deflate), in base64: letters that mean nothing to HTML."""
    content = json.dumps(payload(sample), separators=(",", ":"), ensure_ascii=True).encode()
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(squeezer.compress(content) + squeezer.flush()).decode()


def payload(sample: Sample) -> dict[str, Any]:
    """Return what the viewer needs of a line of samples.jsonl.

    Keys: `tokens` and `greedy`, texts of the tokens; `names`, the names of tokens that have no text, by side and place;
    `committed`, tokens of each pass; `places`, `ways` and `who`, of each token its pass (None: it needed none), how it
    was let in (4: the pending token, 5: without a pass) and who drafted it (index into `drafters`, -1: nobody);
    `diverges`, the first place where the method leaves greedy decoding, or None; `passes`, of each the milliseconds of
    its parts (None in a replay), how many nodes were cut before the forward, and its tree, if it was recorded. Runs
    from before texts were recorded by tokens have `text` and `greedy_text` instead.
    """
    if sample["status"] != "ok":
        return {"failed": sample["reason"]}
    greedy = sample["baseline"]
    places = _places(sample)
    who = _along(places, sample["drafted_by"], "")
    ways = _along(places, sample["pathways"], _LAST)
    drafters = sorted({name for name in who if name})
    content = {
        "facts": _facts(sample),
        "committed": sample["committed"],
        "places": places,
        "ways": [way if name or way == _LAST else _PLAIN for way, name in zip(ways, who, strict=True)],
        "who": [drafters.index(name) if name else -1 for name in who],
        "drafters": drafters,
        "diverges": _divergence(sample["output_ids"], greedy["output_ids"]),
        "passes": _passes(sample),
    }
    if sample.get("pieces") is None:
        return {**content, "text": sample["text"], "greedy_text": greedy["text"]}
    names = sample["token_texts"]
    return {
        **content,
        "tokens": _cut(sample["text"], sample["pieces"]),
        "greedy": _cut(greedy["text"], greedy["pieces"]),
        "names": [_unseen(side, names) for side in (sample, greedy)],
    }


def _places(sample: Sample) -> list[int | None]:
    """Return the pass of each token; the last one of a turn may have needed none."""
    turns = sample.get("turns") or [{"tokens": len(sample["output_ids"]), "passes": sample["passes"]}]
    places: list[int | None] = []
    first = 0
    for turn in turns:
        passes = range(first, first + turn["passes"])
        own = [place for place in passes for _ in range(sample["committed"][place])]
        places += [*own, *[None] * (turn["tokens"] - len(own))]
        first += turn["passes"]
    return places


def _along(places: Sequence[int | None], values: Sequence[Sequence[Any]], missing: Any) -> list[Any]:
    """Return the values of all passes along the tokens, and `missing` for a token without a pass."""
    left = chain.from_iterable(values)
    return [missing if place is None else next(left) for place in places]


def _facts(sample: Sample) -> dict[str, Any]:
    greedy, tokens = sample["baseline"], len(sample["output_ids"])
    ours, plain = (_ms_per_token(side) for side in (sample, greedy))
    return {
        "tokens": tokens,
        "passes": sample["passes"],
        "prompt_tokens": sample["prompt_tokens"],
        "tau": sum(sample["committed"]) / sample["passes"] if sample["passes"] else None,
        "speedup": plain / ours if ours and plain is not None else None,
        "score": sample["score"],
        "greedy_score": greedy["score"],
        "finish": sample["finish"],
        "verdict": sample.get("lossless"),
    }


def _ms_per_token(side: Sample) -> float | None:
    """Return the decoding time of a token; a replay has none."""
    return None if side["decode_ms"] is None else side["decode_ms"] / len(side["output_ids"])


def _divergence(ours: Sequence[int], greedy: Sequence[int]) -> int | None:
    return None if list(ours) == list(greedy) else common_prefix(ours, greedy)


def _passes(sample: Sample) -> list[dict[str, Any]]:
    trees: Sequence[Any] = [None] * sample["passes"] if sample.get("trees") is None else _trees(sample)
    steps = zip(*(sample[f"{part}_ms"] for part in ("draft", "verify", "judge", "commit")), strict=True)
    sizes = zip(sample["nodes"], sample["proposed_nodes"], strict=True)
    return [
        {"ms": [*map(_rounded, times)], "nodes": nodes, "proposed": proposed, "tree": tree}
        for times, (nodes, proposed), tree in zip(steps, sizes, trees, strict=True)
    ]


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)


def _trees(sample: Sample) -> list[dict[str, Any]]:
    """Return of each pass its nodes' texts, parents and drafters (bits), its committed path and its pending node."""
    trees, texts = sample["trees"], sample["token_texts"]
    words = [texts[str(token)] for token in trees["tokens"]]
    everyone = (1 << len(trees["sources"])) - 1
    bits = trees["drafted_by"] or [everyone] * len(words)
    found = []
    for (a, b), (c, d), pending in zip(
        _spans(sample["nodes"]), _spans(sample["committed"]), trees["pending"], strict=True
    ):
        path = trees["paths"][c:d]
        tree = {"texts": words[a:b], "parents": trees["parents"][a:b], "path": path, "pending": pending}
        found.append({**tree, "who": bits[a:b], "sources": trees["sources"]})
    return found


def _spans(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(accumulate(lengths, initial=0)))


def _cut(text: str, lengths: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in _spans(lengths)]


def _unseen(side: Sample, names: Mapping[str, str]) -> dict[int, str]:
    return {
        place: names[str(token)]
        for place, (token, length) in enumerate(zip(side["output_ids"], side["pieces"], strict=True))
        if not length
    }
