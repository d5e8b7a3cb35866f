"""Tables 10 and 11: the prompt template of each set, and where prompts and stores came from."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.paper.cells import EMPTY, Cell
from benchmarks.paper.names import set_name
from benchmarks.paper.runs import SETS, Run, Runs
from benchmarks.paper.table import Cells, Labels, Table
from corpora.templates import TEMPLATES, TEMPLATES_VERSION

METHODS: Final = {"rest": "REST", "dresd": "DReSD", "sen": "SENSE"}
_KINDS: Final = {"id": "the model's own answers", "ood": "reference answers"}


def table_10(runs: Runs) -> Table:
    """Return the template and the text of the prompts of each set."""
    cells: Cells = {}
    sets = [*SETS, *sorted({run.dataset for run in runs.runs} - SETS.keys())]
    for name in sets:
        own = [run for run in runs.runs if run.dataset == name]
        template = _only({_template(run) for run in own})
        used = tuple(run.hash for run in own)
        cells[(set_name(name),), ("Template",)] = EMPTY if template is None else Cell(template, runs=used)
        text = TEMPLATES.get(template or "")
        cells[(set_name(name),), ("Prompt",)] = EMPTY if text is None else Cell(text, runs=used)
    rows: list[Labels] = [(set_name(name),) for name in sets]
    note = "The wording is the paper's; its line breaks were lost in publication, so they are ours."
    caption = "Prompt template of each set"
    return Table("table10", caption, ("Set",), rows, [("Template",), ("Prompt",)], cells, notes=[note])


def table_11(runs: Runs) -> Table:
    """Return where the documents of the store and the test prompts of each method and set came from."""
    cells: Cells = {}
    rows: list[Labels] = [(title, set_name(name)) for title in METHODS.values() for name in SETS]
    for drafter, title in METHODS.items():
        for name in SETS:
            own = [run for run in runs.runs if (run.manifest["drafter"], run.dataset) == (drafter, name)]
            used = tuple(run.hash for run in own)
            for column, texts in (
                ("Store source", {_store(run.manifest["datastore"]) for run in own if run.manifest.get("datastore")}),
                ("Test source", {_source(run.manifest["dataset"]["source"]) for run in own}),
            ):
                cell = Cell("; ".join(sorted(texts)), runs=used) if texts else EMPTY
                cells[(title, set_name(name)), (column,)] = cell
    note = (
        "Both are fixed shuffled samples. Documents that share 13 words in a row with the test split are left out of a "
        "store unless datastore.leaks=keep."
    )
    columns = [("Store source",), ("Test source",)]
    return Table("table11", "Sources of stores and prompts", ("Method", "Set"), rows, columns, cells, notes=[note])


def _template(run: Run) -> str:
    """Return the template's name, or what tells that its text is not the present one."""
    dataset = run.manifest["dataset"]
    version = dataset.get("templates_version")
    return str(dataset["template"]) if version == TEMPLATES_VERSION else f"{dataset['template']}, version {version}"


def _store(store: dict[str, Any]) -> str:
    return f"{_KINDS.get(store['kind'], store['kind'])} to {store['prompts']} prompts of {_source(store['source'])}"


def _source(text: str) -> str:
    return text.removeprefix("folder ")


def _only(names: set[str]) -> str | None:
    return " / ".join(sorted(names)) if names else None
