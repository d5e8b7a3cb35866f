"""What a training leaves behind beside the head: figures of every step, curves, and a card."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from methods.quoting import shell_word
from methods.schema import Settings
from methods.training.settings import DRAFT_LM

SMOOTHED = 20


def write_report(folder: Path, settings: Settings, facts: Mapping[str, int], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write training.jsonl, curves.png and the card README.md."""
    (folder / "training.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    _curves(folder / "curves.png", rows)
    (folder / "README.md").write_text(_card(settings, facts, rows), "utf-8")


def _curves(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    # matplotlib takes a second to import, which no run needs.
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    steps = np.array([row["step"] for row in rows])
    for number in range(max(len(row["losses"]) for row in rows)):
        there = [len(row["losses"]) > number for row in rows]
        values = np.array([row["losses"][number] for row in rows if len(row["losses"]) > number])
        left.plot(steps[there], _smooth(values), label=f"step {number + 1}")
    measured = [row for row in rows if "shares" in row]
    for number in range(len(measured[0]["shares"]) if measured else 0):
        values = np.array([row["shares"][number] for row in measured])
        right.plot([row["step"] for row in measured], values, marker=".", label=f"first {number + 1}")
    left.set(xlabel="optimiser step", ylabel="loss", title="training")
    right.set(xlabel="optimiser step", ylabel="share of drafts", title="held-out drafts right so far", ylim=(0, 1))
    for axes in (left, right):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _smooth(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the mean of each value and those before it."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    stops = np.arange(1, len(values) + 1)
    begins = np.maximum(stops - SMOOTHED, 0)
    return (sums[stops] - sums[begins]) / (stops - begins)


def _card(settings: Settings, facts: Mapping[str, int], rows: Sequence[Mapping[str, Any]]) -> str:
    training, last = settings.training, rows[-1]
    shares = next(row["shares"] for row in reversed(rows) if "shares" in row)
    prompts = f"up to {training.num_prompts} each of {', '.join(training.datasets)}"
    recipe = {key: value for key, value in asdict(training).items() if key not in ("data_dir", "output")}
    script = "train_draft" if training.name == DRAFT_LM else "train_eagle"
    words = [f"python -m scripts.{script}", f"model={settings.model.name}", f"training={training.name}"]
    words += [
        word
        for word in sys.argv[1:]
        if not word.startswith(("model", "training=", "training.data_dir", "training.output"))
    ]
    lines = [
        f"# {'Draft model' if training.name == DRAFT_LM else f'{training.name} head'} for {settings.model.name}",
        "",
        f"Data: the model's own greedy answers to train prompts ({prompts}). {facts['answers']} answers with "
        f"{facts['tokens']:,} tokens were trained on, {facts['held_out']} others were held out. {facts['unfit']} "
        f"prompts were too long or empty, {facts['leaks']} answers shared 13 words in a row with a test set and were "
        f"left out (test sets of {', '.join(training.held_out)}).",
        "",
        f"Steps: {last['step']}. Last losses: {', '.join(f'{loss:.3f}' for loss in last['losses'])}.",
        "",
        "Share of held-out greedy drafts whose first j tokens are the target's, j = 1, 2, ...: "
        f"{', '.join(f'{share:.3f}' for share in shares)}.",
        "",
        f"Command: `{' '.join(words)}`",
        "",
        f"Settings: {' '.join(shell_word(f'training.{key}', value) for key, value in recipe.items())}",
    ]
    return "\n".join(lines) + "\n"
