"""The page as a text: what must be in it, and what must never be."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import without_times
from benchmarks.report.labels import labels
from benchmarks.report.loading import load_runs
from benchmarks.report.page import ASSETS, page
from benchmarks.report.payload import packed
from benchmarks.report.rows import COLUMNS, table_rows
from scripts.report import main
from tests.unit.benchmarks.report.making import NASTY, sample, write_run

TEXT = ["So", " it", " is", " 42", "."]


class Reader(HTMLParser):
    """Takes a page apart: the texts of its scripts by their id, its start tags, and the cells of its tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            name = self.tags[-1][1].get("id") or "main"
            self.scripts[name] = self.scripts.get(name, "") + data
        elif "td" in self.open or "th" in self.open:
            self.cells[-1] += data


def read(*places: Path) -> tuple[str, Reader]:
    html = page(load_runs(places))
    return html, Reader(html)


def unpacked(letters: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(letters), -zlib.MAX_WBITS))


def test_texts_of_any_kind_go_through_unchanged(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("</script><i>", NASTY)], method="<b>&\u2028\U0001f600")
    html, reader = read(tmp_path)
    assert unpacked(reader.scripts["sample-0-0"])["tokens"] == list(NASTY)
    index = json.loads(reader.scripts["index"])
    assert (index[0]["prompts"], index[0]["label"]) == (["</script><i>"], "<b>&\u2028\U0001f600")
    assert not re.search(r"[<>&\u2028]", reader.scripts["index"])
    assert {tag for tag, _ in reader.tags}.isdisjoint({"b", "i"})
    assert html.count("</script>") == sum(tag == "script" for tag, _ in reader.tags)


def test_the_page_needs_nothing_beside_itself(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT)])
    html, reader = read(tmp_path)
    loading = {"src", "srcset", "poster", "data", "action"}
    assert not [attrs for _, attrs in reader.tags if loading & attrs.keys()]
    assert {attrs["href"] for tag, attrs in reader.tags if tag == "link"} == {"data:,"}
    policy = next(attrs["content"] for _, attrs in reader.tags if attrs.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "@import" not in html
    assert "url(http" not in html


def test_the_assets_end_no_element_that_they_stand_in() -> None:
    for path in [*ASSETS.glob("*.js"), *ASSETS.glob("*.css")]:
        assert not re.search(r"</(script|style)|<!--", path.read_text(encoding="utf-8"), re.IGNORECASE)


def test_the_same_runs_make_the_same_page(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT), sample("b", TEXT)])
    assert read(tmp_path)[0] == read(tmp_path)[0]


def test_every_figure_but_the_count_of_cut_outputs_has_its_interval(tmp_path: Path) -> None:
    lines = [sample("a", TEXT, ms=4.0), sample("b", TEXT[:4], committed=[2, 1], ms=8.0), sample("c", TEXT, ms=5.0)]
    write_run(tmp_path, lines)
    row = [cell for cell in read(tmp_path)[1].cells if re.match(r"\d+(\.\d+)?%?\[", cell.replace("\n", "").strip())]
    assert len(row) == len(COLUMNS) - 1


def test_a_lossy_run_never_stands_without_its_quality(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT, score=None), sample("b", TEXT, score=None)])
    write_run(tmp_path, [sample("a", TEXT), sample("b", TEXT)], method="fly", hash="1")
    html, reader = read(tmp_path)
    names = [cell for cell in reader.cells if "see its tokens" in cell]
    assert len(names) == 2
    assert "quality ratio 1.00" in names[0]
    assert "quality not measured" in names[1]
    assert any(cell.startswith("not measured") for cell in reader.cells)
    pictures = re.findall(r"<svg viewBox.*?</svg>", html, re.DOTALL)
    with_names = [picture for picture in pictures if ">sense</tspan>" in picture]
    assert with_names
    assert all("lossy, quality not measured" in picture for picture in with_names)


def test_every_plot_has_words_and_numbers(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT), sample("b", TEXT)])
    html, _ = read(tmp_path)
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert len(figures) == 6
    for figure in figures:
        assert re.search(r"<desc[^>]*>[^<]{10,}</desc>", figure)
        assert "sense" in figure.split("<table", 1)[1]


def test_one_prompt_has_no_interval_and_no_prompt_no_figure(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT)])
    failed = {"id": "a", "status": "failed", "reason": "ValueError: no <room>"}
    write_run(tmp_path, [failed], method="pld", guarantee="exact")
    html, reader = read(tmp_path)
    assert unpacked(reader.scripts["sample-0-0"]) == {"failed": "ValueError: no <room>"}
    assert "1 prompt failed" in html
    assert "[nan" not in html


def test_a_run_that_was_stopped_is_shown_as_such(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT)], finished=False, prompts=["a", "b"])
    html, _ = read(tmp_path)
    assert "not finished" in html
    assert "1 of 2" in html


def test_a_run_without_its_samples_has_what_its_summary_says(tmp_path: Path) -> None:
    (write_run(tmp_path, [sample("a", TEXT), sample("b", TEXT)]) / "samples.jsonl").unlink()
    html, reader = read(tmp_path)
    assert json.loads(reader.scripts["index"])[0]["prompts"] == []
    assert "4.00" in html  # tau
    assert html.count("<figure") == 5  # all but the pathways, which need the samples


def test_a_run_that_another_version_left_is_refused(tmp_path: Path) -> None:
    line = sample("a", TEXT)
    del line["nodes"]
    write_run(tmp_path, [line], finished=False)
    with pytest.raises(ValueError, match="samples lack 'nodes': finish it or leave it out"):
        load_runs([tmp_path])


def test_outputs_without_an_answer_are_counted_beside_their_score(tmp_path: Path) -> None:
    write_run(tmp_path, [sample("a", TEXT, score=0.0), sample("b", TEXT)])
    assert any("1 without answer" in cell for cell in read(tmp_path)[1].cells)


def test_outputs_that_the_budget_cut_are_counted_beside_plain_decodings(tmp_path: Path) -> None:
    lines = [sample("a", TEXT), sample("b", TEXT, finish="eos"), sample("c", TEXT, finish="stop")]
    write_run(tmp_path, lines)
    runs = load_runs([tmp_path])
    (row,) = table_rows(runs, labels(runs))
    (shown,) = (cell for column, cell in zip(COLUMNS, row.cells, strict=True) if column.title == "Cut")
    assert (shown.value, shown.sort, list(shown.notes)) == ("1", 1, ["plain 3"])


def test_a_replay_is_a_row_of_its_own_without_times(tmp_path: Path) -> None:
    lines = [sample("a", TEXT), sample("b", TEXT)]
    write_run(tmp_path, lines)
    write_run(tmp_path, [without_times(line) for line in lines], hash="1", mode="replay", config={"mode": "replay"})
    runs = load_runs([tmp_path])
    rows = {row.label: row for row in table_rows(runs, labels(runs))}
    assert {label: row.replayed for label, row in rows.items()} == {"sense": False, "replay of sense": True}
    shown = zip(COLUMNS, rows["replay of sense"].cells, strict=True)
    assert [column.title for column, cell in shown if cell.sort is None] == ["Speedup", "ms / token"]


def test_runs_of_one_method_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    for place, theta in enumerate((0.1, 0.2)):
        write_run(tmp_path, [sample("a", TEXT)], hash=str(place), config={"verifier": {"theta_e": theta, "k": 3}})
    index = json.loads(read(tmp_path)[1].scripts["index"])
    assert [run["label"] for run in index] == ["sense verifier.theta_e=0.1", "sense verifier.theta_e=0.2"]


def test_runs_with_the_same_settings_are_told_apart_by_their_hash(tmp_path: Path) -> None:
    for name in ("x", "y"):
        write_run(tmp_path / name, [sample("a", TEXT)], hash=name)
    index = json.loads(read(tmp_path)[1].scripts["index"])
    assert [run["label"] for run in index] == ["sense x", "sense y"]


def test_a_folder_named_twice_is_one_run(tmp_path: Path) -> None:
    place = write_run(tmp_path, [sample("a", TEXT)])
    assert len(load_runs([tmp_path, place])) == 1


def test_six_hundred_samples_stay_small() -> None:
    # 128 tokens in 32 passes, as long as those of the README's table.
    words = [f" w{place * 7919 % 997}" for place in range(128)]
    size = len(packed(sample("a", words, committed=[4] * 31 + [3])))
    assert size * 600 < 5 * 2**20


def test_the_command_writes_a_page_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs", [sample("a", TEXT)])
    out = tmp_path / "new" / "report.html"
    assert main([str(tmp_path / "runs"), f"out={out}"]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"{out}: runs: 1, samples: 1, " in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["out=x.html"], ["a", "out=x", "out=y"], ["a", "out="]])
def test_words_that_make_no_sense_show_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "python -m scripts.report RUNS" in capsys.readouterr().err


def test_a_place_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path / "nowhere")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "holds no run" in errors[0]
    assert "is no folder" in errors[1]


def test_a_manifest_that_describes_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"method": "sense"}')
    (tmp_path / "samples.jsonl").write_text("")
    with pytest.raises(ValueError, match="lacks drafter, verifier"):
        load_runs([tmp_path])
