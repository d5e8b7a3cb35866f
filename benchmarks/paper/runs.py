"""The runs that tables are made of: read from result folders, whole or compact, and picked for a cell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from benchmarks.paper.compact import PROMPTS_FILE, prompt_figures, read_prompts, without_paths
from benchmarks.paper.variant import variant_of
from benchmarks.results import RunFolder

# The paper's models in its order, by the names of conf/model; any other model keeps its own name, after these.
MODELS: Final = {
    "llama2-7b": "Llama2-7B",
    "llama2-13b": "Llama2-13B",
    "qwen2.5-7b": "Qwen2.5-7B",
    "qwen2.5-14b": "Qwen2.5-14B",
    "qwen3-8b": "Qwen3-8B",
    "qwen3-14b": "Qwen3-14B",
    "smollm2-135m": "SmolLM2-135M",
}
SETS: Final = {"gsm8k": "GSM8K", "codealpaca": "CodeAlpaca", "ultrachat": "UltraChat", "triviaqa": "TriviaQA"}


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: where it lies.
        manifest: content of manifest.json, without paths.
        summary: content of summary.json.
        variant: the settings that are not the defaults of its drafter and verifier.
    """

    folder: Path
    manifest: Mapping[str, Any]
    summary: Mapping[str, Any]
    variant: Mapping[str, Any]

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The figures of each prompt."""
        file = self.folder / PROMPTS_FILE
        return read_prompts(file) if file.is_file() else [*map(prompt_figures, RunFolder(self.folder).read())]

    @property
    def prompts(self) -> list[dict[str, Any]]:
        """The figures of each prompt that did not fail."""
        return [line for line in self.lines if line["status"] == "ok"]

    @property
    def hash(self) -> str:
        """Short identity of the settings."""
        return str(self.manifest["hash"])

    @property
    def model(self) -> str:
        """Name of the model in tables."""
        return MODELS.get(self.manifest["model"], self.manifest["model"])

    @property
    def dataset(self) -> str:
        """Name of the set; the project's own small sets have other names, and so stay out of the paper's cells."""
        return str(self.manifest["dataset"]["name"])

    @property
    def store(self) -> str | None:
        """Kind of the store that was searched."""
        return (self.manifest.get("datastore") or {}).get("kind")

    @property
    def lossy(self) -> bool:
        """Whether the output may differ from the target's own."""
        return self.manifest["guarantee"] == "lossy"

    @property
    def replayed(self) -> bool:
        """Whether drafts were made against a recording, so that there are no times."""
        return self.manifest.get("mode") == "replay"

    @property
    def rank(self) -> tuple[bool, int, int, str, str]:
        """Which of two runs stands in a cell that both fit: timed, most prompts, largest store, newest."""
        store = self.manifest.get("datastore") or {}
        timed = self.summary["speedup"]["value"] is not None
        return timed, self.summary["n"], store.get("prompts") or 0, str(self.manifest.get("created")), self.hash


@dataclass(frozen=True)
class Pick:
    """Which run belongs into a cell, but for its model and its data set.

    Attributes:
        labels: of the row.
        drafter: registry name.
        verifier: registry name.
        store: "id" or "ood" where the drafter searches one.
        knobs: settings by dotted key; all that it does not name must be at the defaults.
    """

    labels: tuple[str, ...]
    drafter: str
    verifier: str = "exact"
    store: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, run: Run) -> bool:
        """Return whether a run is of this kind."""
        manifest, config = run.manifest, run.manifest["config"]
        if (manifest["drafter"], manifest["verifier"], run.store) != (self.drafter, self.verifier, self.store):
            return False
        wanted = all(_at(config, key) == value for key, value in self.knobs.items())
        return wanted and not run.variant.keys() - self.knobs.keys()


@dataclass(frozen=True)
class Runs:
    """All runs at hand.

    Attributes:
        runs: sorted by model, data set and settings.
        unfinished: folders without a summary.
    """

    runs: Sequence[Run]
    unfinished: Sequence[Path] = ()

    @classmethod
    def load(cls, roots: Iterable[Path]) -> Runs:
        """Read every run under some folders; one that lies there twice counts once.

        Raises:
            ValueError: a folder that does not exist, or a damaged file.
        """
        found: dict[tuple[str, str, str], Run] = {}
        unfinished = []
        for root in roots:
            if not root.is_dir():
                raise ValueError(f"runs: there is no folder {root}; give folders that hold runs, separated by commas")
            for file in sorted(root.rglob("manifest.json")):
                run = _load(file.parent)
                if run is None:
                    unfinished.append(file.parent)
                else:
                    found.setdefault((run.dataset, run.model, run.hash), run)
        return cls(sorted(found.values(), key=_order), unfinished)

    @property
    def models(self) -> list[str]:
        """Titles of the models, the paper's first."""
        return list(dict.fromkeys(run.model for run in self.runs))

    def all_for(self, model: str, dataset: str, pick: Pick) -> list[Run]:
        """Return every run that fits a cell, the one that stands in it first."""
        fitting = [run for run in self.runs if (run.model, run.dataset) == (model, dataset) and pick.fits(run)]
        return sorted(fitting, key=lambda run: run.rank, reverse=True)

    def pick(self, model: str, dataset: str, pick: Pick) -> Run | None:
        """Return the run that stands in a cell, None if none fits."""
        return next(iter(self.all_for(model, dataset, pick)), None)


def model_rank(title: str) -> tuple[int, str]:
    """Return the place of a model in a table: the paper's order, then the alphabet."""
    order = list(MODELS.values())
    return (order.index(title) if title in order else len(order), title)


def _order(run: Run) -> tuple[Any, ...]:
    sets = list(SETS)
    place = sets.index(run.dataset) if run.dataset in sets else len(sets)
    return (*model_rank(run.model), place, run.dataset, run.manifest["method"], run.hash)


def _load(path: Path) -> Run | None:
    folder = RunFolder(path)
    manifest, summary = folder.manifest(), folder.summary()
    if manifest is None or "config" not in manifest or "hash" not in manifest:
        raise ValueError(f"{path / 'manifest.json'} is not the manifest of a run; give folders that hold runs")
    if summary is None:
        return None
    variant = manifest["variant"] if "variant" in manifest else variant_of(manifest)
    return Run(path, without_paths(manifest), summary, json.loads(json.dumps(without_paths(variant))))


def _at(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
