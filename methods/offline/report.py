"""What a store costs, as a table: the rows of the SENSE paper's Tables 7 to 9, and the time that it took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from methods.offline.stores import Stores

SIZES: Final = {
    "disk": "size on disk",
    "index_on_disk": "  index on disk (Table 7)",
    "ram": "memory, with all that is mapped (Tables 7, 8: total RAM)",
    "metadata": "  token store (Table 7: metadata)",
    "cache": "  projection (Table 7: cache)",
    "rss_baseline": "resident before it is opened (Table 9: baseline)",
    "rss_delta": "  more after opening and 100 queries (Table 9: delta)",
    "rss_peak": "  most during this build (Tables 7, 9: peak)",
}
STAGES: Final = {
    "answers": "answers generated",
    "sample": "states, of the PCA's sample",
    "fit": "PCA",
    "keys": "states and keys of the others",
    "tokens": "token store, suffix array",
    "index": "index",
}


def store_table(stores: Stores) -> Table:
    """Return the table of a store."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("store", overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    for name, value in [*_content(stores), *_sizes(stores), *_stages(stores)]:
        table.add_row(Text(name), Text(value))
    table.caption, table.caption_justify = Text(str(stores.folder)), "left"
    return table


def _content(stores: Stores) -> Iterator[tuple[str, str]]:
    facts = stores.facts
    tests = {test for found in facts["overlaps"].values() for test in found}
    if stores.vectors is not None:
        yield "keys", f"{len(stores):,}"
    yield "tokens", f"{len(stores):,}"
    yield "documents", f"{len(stores.tokens.counts):,}"
    yield "  copies of another one", f"{facts['duplicates']:,}"
    yield "  left out: empty, or too long", f"{len(facts['empty']) + len(facts['too_long']):,}"
    verb = "left out" if facts["leaks"] == "drop" else "KEPT"
    yield (
        f"  {verb}: overlap with {len(tests)} of {facts['evaluation'].partition(':')[0]}",
        f"{len(facts['overlaps']):,}",
    )


def _sizes(stores: Stores) -> Iterator[tuple[str, str]]:
    for key, words in SIZES.items():
        size = stores.facts["sizes_mb"][key]
        yield words, "-" if size is None else f"{size:,.1f} MB"


def _stages(stores: Stores) -> Iterator[tuple[str, str]]:
    """Yield the stages that this build had to do, by all of its jobs together."""
    for key, words in STAGES.items():
        if key in stores.facts["stages"]:
            seconds, tokens = (stores.facts["stages"][key][part] for part in ("seconds", "tokens"))
            rate = f" ({tokens / seconds:,.0f} tokens/s)" if tokens and seconds else ""
            yield f"{words}{rate}", f"{seconds:,.1f} s"
