"""The compact form of a run, small enough to be committed: no text, no token ids, no path of a machine.

Folder: manifest.json (without paths and host name, and with the variant), summary.json (unchanged) and prompts.jsonl,
the figures of each prompt that intervals are made of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from benchmarks.statistics import distinct_n
from primitives.contract import Pathway

PROMPTS_FILE: Final = "prompts.jsonl"

# Totals over the passes of a prompt.
_TOTALS = ("committed", "accepted", "proposed", "nodes", "candidate_tokens", "proposed_nodes")
_TIMES = ("draft_ms", "verify_ms", "judge_ms", "commit_ms")
_DIGITS = 3
# An absolute path, but not the part of an address behind its "//", nor a hub id such as openai/gsm8k.
_PATH = re.compile(r"(?<![\w:/.~])(?:~|[A-Za-z]:)?/(?:[^\s/'\",;:()]+/)*[^\s/'\",;:()]+/?")

Content = Mapping[str, Any]


def prompt_figures(sample: Content) -> dict[str, Any]:
    """Return what the tables need of a line of samples.jsonl.

    `deep[d-1]` counts the passes whose verified tree was at least d deep, `hit[d-1]` those of them that committed at
    least d tokens; `pathways` counts committed tokens in the order of `Pathway`. Times that do not exist, as in a
    replay, are None.
    """
    if sample["status"] != "ok":
        return {"id": sample["id"], "status": sample["status"]}
    depth, committed = np.array(sample["depth"], np.int64), np.array(sample["committed"], np.int64)
    levels = np.arange(1, depth.max(initial=0) + 1)
    deep = depth[:, None] >= levels
    ways = np.array([way for entry in sample["pathways"] for way in entry], np.int64)
    return {
        "id": sample["id"],
        "status": "ok",
        "passes": sample["passes"],
        **{name: int(sum(sample[name])) for name in _TOTALS},
        **{name: _ms(sample[name]) for name in _TIMES},
        **_output(sample),
        "deep": deep.sum(axis=0).tolist(),
        "hit": (deep & (committed[:, None] >= levels)).sum(axis=0).tolist(),
        "pathways": np.bincount(ways, minlength=len(Pathway)).tolist(),
        "baseline": _output(sample["baseline"]),
    }


def _output(output: Content) -> dict[str, Any]:
    return {
        "tokens": len(output["output_ids"]),
        "prefill_ms": _ms([output["prefill_ms"]]),
        "decode_ms": _ms([output["decode_ms"]]),
        "score": output["score"],
        "distinct_4": distinct_n(output["output_ids"]),
    }


def _ms(times: Sequence[float | None]) -> float | None:
    """Return the total of some times, None if one of them was not measured."""
    known = [time for time in times if time is not None]
    return round(sum(known), _DIGITS) if len(known) == len(times) else None


def without_paths(value: Any) -> Any:
    """Return the value with every absolute path in its texts cut to ".../" and its last part."""
    if isinstance(value, Mapping):
        return {key: without_paths(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(entry) for entry in value]
    if isinstance(value, str):
        return _PATH.sub(lambda found: f".../{PurePath(found.group()).name}", value)
    return value


def compact_manifest(manifest: Content, variant: Content) -> dict[str, Any]:
    """Return the manifest without paths and host name, and with the settings that make the run a variant."""
    kept = without_paths(dict(manifest))
    if kept.get("host"):
        kept["host"] = {key: value for key, value in kept["host"].items() if key != "name"}
    return {**kept, "variant": dict(variant)}


def write_compact(folder: Path, manifest: Content, summary: Content, prompts: Sequence[Content]) -> None:
    """Write the three files of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("manifest.json", manifest), ("summary.json", summary)):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")
    lines = [json.dumps(prompt, separators=(",", ":")) + "\n" for prompt in prompts]
    (folder / PROMPTS_FILE).write_text("".join(lines), encoding="ascii")


def read_prompts(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a prompts.jsonl.

    Raises:
        ValueError: a damaged line.
    """
    lines = file.read_text(encoding="ascii").split("\n")
    try:
        return [json.loads(line) for line in lines if line]
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}); collect the run again") from error
