from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from pathlib import Path

import pytest
from rich.console import Console

from methods.memory import peak_rss_mb, rss_mb
from methods.offline import Stores
from methods.offline.report import store_table
from tests.unit.methods.building import METHOD, build, facts_of, folder_of

Words = Callable[..., list[str]]


def shown(stores: Stores, width: int = 80) -> dict[str, str]:
    """The rows of the table: name and value."""
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(store_table(stores))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    return {line[:58].strip(): line[58:].strip() for line in lines}


def test_the_table_tells_what_a_store_holds_and_costs(words: Words, tmp_path: Path) -> None:
    stores = build(words(METHOD))
    rows = shown(stores)
    assert rows["keys"] == rows["tokens"] == "72"
    assert rows["documents"] == "6"
    assert rows["left out: overlap with 0 of gsm8k, 3 test prompts"] == "0"
    for name in ("size on disk", "index on disk (Table 7)", "token store (Table 7: metadata)"):
        assert rows[name].endswith(" MB")
    assert any(name.startswith("states, of the PCA's sample (") and "tokens/s)" in name for name in rows)
    assert str(folder_of(tmp_path)) in "".join("".join(pair) for pair in rows.items())


def test_a_token_store_has_no_rows_of_keys(words: Words) -> None:
    rows = shown(build(words("rest")))
    assert "keys" not in rows
    assert rows["index on disk (Table 7)"] == "0.0 MB"
    assert not any(name.startswith(("PCA", "index (")) for name in rows)


def test_the_manifest_has_the_sizes_of_the_files(words: Words, tmp_path: Path) -> None:
    stores = build(words(METHOD))
    sizes = facts_of(tmp_path)["sizes_mb"]
    files = {file.name: file.stat().st_size for file in folder_of(tmp_path).iterdir() if file.name != "manifest.json"}
    assert sizes["disk"] == pytest.approx(sum(files.values()) / 2**20)
    assert sizes["index_on_disk"] == pytest.approx(files["index.faiss"] / 2**20)
    assert sizes["ram"] == pytest.approx(stores.nbytes / 2**20)
    assert sizes["metadata"] == pytest.approx(stores.tokens.nbytes / 2**20)
    # The two counters of the system do not move at the same moment.
    assert sizes["rss_peak"] > sizes["rss_baseline"] - 8 > 0


def test_the_memory_of_the_process_is_read_from_the_system() -> None:
    now = rss_mb()
    assert now is not None
    # Pages of their own: an allocator may hand out memory that the process already holds.
    with mmap(-1, 64 * 2**20) as held:
        held[:: 2**12] = b"x" * len(held[:: 2**12])
        grown = rss_mb()
    assert grown is not None
    assert 50 < grown - now < 100
    assert peak_rss_mb() >= grown - 1


def test_where_the_system_does_not_tell_nothing_is_made_up(
    words: Words, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("methods.memory._STATM", tmp_path / "nowhere")
    stores = build(words("rest"))
    assert stores.facts["sizes_mb"]["rss_delta"] is None
    assert shown(stores)["resident before it is opened (Table 9: baseline)"] == "-"
    assert rss_mb() is None
