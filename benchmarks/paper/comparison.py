"""Tables that compare kinds of runs over data sets: a row for each model and pick, a group of columns for each set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.paper.cells import Cell, mean_of_sets, read
from benchmarks.paper.names import method_name, set_name
from benchmarks.paper.published import beside, published_models
from benchmarks.paper.runs import SETS, Pick, Run, Runs, model_rank
from benchmarks.paper.table import MEAN, Cells, Labels, Table

SPEED_AND_TAU: Final = {"Speed": "speedup", "τ": "tau"}


@dataclass(frozen=True)
class Comparison:
    """What such a table is.

    Attributes:
        name: of the table.
        caption: without a full stop.
        heads: names of the row labels behind the model.
        picks: the rows of each model.
        sets: the data sets, as the configuration names them.
        figures: label of a column within its group -> what it reads (`cells.READERS`).
        mean: whether a group with the mean over all sets follows.
        formats: see `Table`.
        notes: sentences below the table.
    """

    name: str
    caption: str
    heads: Labels
    picks: Sequence[Pick]
    sets: Sequence[str] = tuple(SETS)
    figures: Mapping[str, str] = field(default_factory=lambda: SPEED_AND_TAU)
    mean: bool = True
    formats: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __call__(self, runs: Runs, published: bool = False) -> Table:
        """Return the table of some runs, with the paper's values beside them on request."""
        models = models_of(runs, self.name)
        rows = {(model, *pick.labels): (model, pick) for model in models for pick in self.picks}
        cells: Cells = {(row, column): cell for row, at in rows.items() for column, cell in self._row(runs, *at)}
        groups = [*(SETS[name] for name in self.sets), *([MEAN] if self.mean else [])]
        columns = [(group, label) for group in groups for label in self.figures]
        used = [run for model, pick in rows.values() for name in self.sets if (run := runs.pick(model, name, pick))]
        table = Table(
            self.name,
            self.caption,
            ("Model", *self.heads),
            list(rows),
            columns,
            cells,
            self.formats,
            [*self.notes, *circumstances(used), *self._quality(used), *self._others(runs, models)],
        )
        return beside(table) if published else table

    def _row(self, runs: Runs, model: str, pick: Pick) -> Iterator[tuple[Labels, Cell]]:
        found = {name: runs.pick(model, name, pick) for name in self.sets}
        for label, figure in self.figures.items():
            cells = {name: read(run, figure) for name, run in found.items()}
            yield from (((SETS[name], label), cell) for name, cell in cells.items())
            if self.mean:
                yield (MEAN, label), mean_of_sets(list(cells.values()))

    def _quality(self, runs: Sequence[Run]) -> Iterator[str]:
        if "speedup" in self.figures.values():
            yield from what_it_cost(runs)

    def _others(self, runs: Runs, models: Sequence[str]) -> Iterator[str]:
        places = [(model, name, pick) for model in models for name in self.sets for pick in self.picks]
        yield from others_note(runs.all_for(*place) for place in places)


def models_of(runs: Runs, name: str) -> list[str]:
    """Return the models that have runs; without any, the paper's, so that the table shows what is missing."""
    return runs.models or sorted(published_models(name), key=model_rank) or ["-"]


def circumstances(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a sentence for each model on how its runs were measured."""
    for model in dict.fromkeys(run.model for run in runs):
        own = [run for run in runs if run.model == model]
        counts = sorted({run.summary["n"] for run in own})
        n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        tokens = " or ".join(map(str, sorted({run.manifest["config"]["decode"]["max_new_tokens"] for run in own})))
        places = " and ".join(sorted({f"{run.manifest['dtype']} on {run.manifest['device']}" for run in own}))
        failed = sum(run.summary["failed"] for run in own)
        dropped = f"; {failed} prompts failed" if failed else ""
        yield f"{model}: {n} prompts a cell, at most {tokens} new tokens, {places}{dropped}."
        replays = _names([run for run in own if run.replayed])
        if replays:
            yield f"{model}: replays of recorded outputs, and so without times: {replays}."


def what_it_cost(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a sentence for each model on the outputs of lossy methods, beside those of plain decoding."""
    for model in dict.fromkeys(run.model for run in runs if run.lossy):
        words = [f"{_name(run)} {_outputs(run)}" for run in runs if run.lossy and run.model == model]
        yield f"{model}: lossy methods, the method's outputs / plain decoding's: {'; '.join(words)}."


def _outputs(run: Run) -> str:
    quality, distinct = run.summary["quality"], run.summary["distinct_n"]
    figures = {} if quality is None else {quality["metric"]: (quality["method"], quality["baseline"])}
    figures["distinct-4"] = (distinct["method"], distinct["baseline"])
    told = {name: pair for name, pair in figures.items() if None not in pair}
    return ", ".join(f"{name} {ours:.2f} / {plain:.2f}" for name, (ours, plain) in told.items()) or "not scored"


def without_times(replays: Sequence[Run]) -> str:
    """Return a sentence on replays that have no place in a table of times, empty without any."""
    models = dict.fromkeys(run.model for run in replays)
    words = [f"{model}, {_names([run for run in replays if run.model == model])}" for model in models]
    return f"Replays, left out since they have no times: {'; '.join(words)}." if words else ""


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(dict.fromkeys(_name(run) for run in runs))


def _name(run: Run) -> str:
    return f"{method_name(run)} on {set_name(run.dataset)}"


def others_note(fitting: Iterable[list[Run]]) -> Iterator[str]:
    """Yield what was left out because a better run stands in the same cell."""
    left = dict.fromkeys((run.hash, run.replayed and not runs[0].replayed) for runs in fitting for run in runs[1:])
    reasons = {
        False: "a run of more prompts, of a larger store or a newer one fits the same cell",
        True: "replays have no times and a measured run fits the same cell",
    }
    for beside_measured, reason in reasons.items():
        hashes = [name for name, flag in left if flag == beside_measured]
        if hashes:
            yield f"Left out, since {reason}: {', '.join(hashes)}."
