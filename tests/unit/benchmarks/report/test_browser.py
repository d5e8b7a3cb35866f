"""The page in a real browser: what is shown, what keys do, and what a screen reader is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from benchmarks.measure import without_times
from benchmarks.report.loading import load_runs
from benchmarks.report.page import page
from tests.unit.benchmarks.report.making import NASTY, sample, write_run

selenium = pytest.importorskip("selenium", reason="needs selenium (the extra 'test')")
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

from tests.unit.benchmarks.report import browser  # noqa: E402

pytestmark = [
    pytest.mark.skipif(browser.paths() is None, reason="needs Chromium and its driver (chromium, chromedriver)"),
    pytest.mark.xdist_group("browser"),
]

# Three passes and a last token; the second pass lets a top-k, a window and a relaxed token in.
TEXT = ["So", " it", " is", " 4", "2", " or", " so", "\n", "end", ""]
GREEDY = ["So", " it", " is", " 42", ".", ""]
WAYS = [[0, 0, 0], [0, 1, 2, 3], [0, 0]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    lines = [
        sample("plain text", TEXT, GREEDY, committed=[3, 4, 2], ways=WAYS, drafters=("sen", "pld"), ms=9.0),
        sample("nasty", [*NASTY, ""]),
        {"id": "broken", "status": "failed", "reason": "ValueError: <i>no room</i>"},
    ]
    write_run(place / "runs", lines)
    same = [sample(line["id"], TEXT, ms=20.0) for line in lines]
    same[2] = sample("broken", TEXT, GREEDY, ms=60.0, lossless={"kind": "mismatch"})
    write_run(place / "runs", same, method="vanilla", guarantee="exact", verifier="exact")
    old = [sample(line["id"], TEXT, ms=12.0) for line in lines]
    for line in old:
        for key in ("pieces", "token_texts", "trees"):
            del line[key]
    write_run(place / "runs", old, method="zero", guarantee="exact", verifier="exact")
    out = place / "report.html"
    out.write_text(page(load_runs([place / "runs"])), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def opened(chromium: Any, report: Path) -> Any:
    """The page, freshly opened in a light and wide window, with its first sample shown."""
    chromium.get("about:blank")
    browser.prefer(chromium, "light")
    browser.resize(chromium, 1400)
    chromium.get(report.as_uri())
    _wait(chromium, "#ours .tok")
    return chromium


def _wait(driver: Any, selector: str) -> None:
    WebDriverWait(driver, 20).until(lambda d: d.find_elements("css selector", selector))


def _all(driver: Any, selector: str) -> list[Any]:
    found: list[Any] = driver.find_elements("css selector", selector)
    return found


def _text(driver: Any, selector: str) -> str:
    return str(driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def _choose(driver: Any, select: str, value: int) -> None:
    driver.execute_script(
        "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))",
        select,
        value,
    )


def test_it_opens_from_disk_without_an_error_or_a_request(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_a_pass_of_a_replay_is_shown_without_times(chromium: Any, tmp_path: Path) -> None:
    write_run(tmp_path, [without_times(sample("a", TEXT, committed=[3, 4, 2], ways=WAYS))], mode="replay")
    out = tmp_path / "report.html"
    out.write_text(page(load_runs([tmp_path])), encoding="utf-8")
    chromium.get(out.as_uri())
    _wait(chromium, "#ours .tok")
    assert _text(chromium, "#pass-facts").endswith("4 tokens committed. A replay has no times.")
    assert "speedup of this prompt\N{EN DASH}" in _text(chromium, "#facts")


def test_each_token_shows_how_it_was_made_by_hue_and_by_line(opened: Any) -> None:
    kinds = [element.get_attribute("class").split()[1] for element in _all(opened, "#ours .tok")]
    plain, exact = "k-plain", "k-exact"
    assert kinds == [plain, exact, exact, plain, "k-top_k", "k-window", "k-relaxed", plain, exact, "k-last"]
    looks = opened.execute_script(
        "return [...document.querySelectorAll('#legend .tok')].map((e) => { const s = getComputedStyle(e);"
        "return [s.textDecorationLine + s.textDecorationStyle + s.borderBottomStyle, s.backgroundColor] })"
    )
    assert len({line for line, _ in looks}) == len(looks) == 6
    assert len({ground for _, ground in looks}) == 5  # plain and last have none


def test_tokens_can_be_shown_by_drafter(opened: Any) -> None:
    opened.find_element("css selector", "input[value=who]").click()
    legend = [entry.text for entry in _all(opened, "#legend li")]
    assert [entry.split()[0] for entry in legend] == ["pld", "sen", "plain", "last"]
    assert len(_all(opened, "#ours .k-who0")) == 2


def test_where_passes_begin_can_be_seen(opened: Any) -> None:
    groups = [group.get_attribute("aria-label") for group in _all(opened, "#ours [role=group]")]
    assert groups == ["pass 1, 3 tokens", "pass 2, 4 tokens", "pass 3, 2 tokens", "without a pass"]
    bar = "return getComputedStyle(document.querySelectorAll('.pass-text')[1], '::before').borderLeftStyle"
    assert opened.execute_script(bar) == "solid"


def test_the_first_divergence_is_marked_on_both_sides(opened: Any) -> None:
    assert [element.get_attribute("data-place") for element in _all(opened, "#ours .diverges")] == ["3"]
    assert _text(opened, "#greedy .diverges").endswith(" 42")
    assert len(_all(opened, "#greedy .shared")) == 3
    assert "First difference at token 4: the method has “␣4”, plain decoding “␣42”" in _text(opened, "#divergence")


def test_a_broken_promise_is_named(opened: Any) -> None:
    opened.execute_script("location.hash = 'run=1&prompt=2'; location.reload()")
    WebDriverWait(opened, 20).until(lambda d: "vanilla on broken" in _text(d, "#ours-title"))
    assert "A mismatch" in _text(opened, "#divergence")


def test_keys_move_between_tokens_and_passes_and_open_a_tree(opened: Any) -> None:
    opened.find_element("css selector", "#ours .tok").click()

    def press(key: str) -> int:
        opened.switch_to.active_element.send_keys(key)
        return int(opened.switch_to.active_element.get_attribute("data-place"))

    assert [press(Keys.ARROW_RIGHT), press(Keys.ARROW_DOWN), press(Keys.ARROW_LEFT)] == [1, 3, 2]
    assert [press(Keys.ARROW_UP), press(Keys.END), press(Keys.HOME), press(Keys.ARROW_LEFT)] == [0, 9, 0, 0]
    assert len(_all(opened, "#ours [tabindex='0']")) == 1
    assert [press(Keys.ARROW_DOWN), press(Keys.ENTER)] == [3, 3]
    assert _text(opened, "#pass-title") == "Pass 2 of 3"
    assert "Pass 2 of 3: 5 nodes verified, 3 more drafted and cut before; 4 tokens committed" in _text(opened, "#live")
    selected = [element.get_attribute("data-place") for element in _all(opened, "#ours [aria-selected=true]")]
    assert selected == ["3", "4", "5", "6"]


def test_the_whole_page_is_reached_with_the_tab_key(opened: Any) -> None:
    opened.execute_script(
        "window.reached = []; document.addEventListener('focusin', ({ target }) =>"
        "reached.push(target.id || target.getAttribute('role') || target.localName))"
    )
    opened.find_element("tag name", "body").send_keys(Keys.TAB * 80)
    reached = set(opened.execute_script("return reached"))
    assert {"theme", "run", "prompt", "next-prompt", "option", "greedy", "next-pass", "tree", "summary"} <= reached


def test_the_tree_shows_every_node_and_the_committed_path(opened: Any) -> None:
    _all(opened, "#ours .tok")[3].click()
    assert len(_all(opened, "#tree .node:not(.root)")) == 5
    labels = [_text(opened, f"#tree .node:nth-of-type({at}) text") for at in (2, 3, 4, 5, 6)]
    assert labels == ["✓ ● ␣4", "✓ 2", "✓ ␣or", "✓ ␣so", "␣wrong"]
    assert len(_all(opened, "#tree .edge.on")) == 4
    assert "Draft tree of pass 2" in _all(opened, "#tree svg")[0].get_attribute("aria-label")
    entries = opened.execute_script(
        "return [...document.querySelectorAll('#tree-list li')].map((e) => e.firstChild.textContent)"
    )
    assert entries == [
        "“␣4” committed, plain, the pending token",
        "“2” committed, top-k, drafted by sen",
        "“␣or” committed, window, drafted by pld",
        "“␣so” committed, relaxed, drafted by sen",
        "“␣wrong” rejected, drafted by sen",
    ]


def test_texts_of_any_kind_are_shown_as_they_are(opened: Any) -> None:
    _choose(opened, "prompt", 1)
    WebDriverWait(opened, 20).until(lambda d: "nasty" in _text(d, "#ours-title"))
    shown = opened.execute_script(
        "return [...document.querySelectorAll('#ours .tok')].map((e) => { const c = e.cloneNode(true);"
        "c.querySelectorAll('.space').forEach((s) => s.remove()); return c.textContent })"
    )
    assert shown == [*NASTY, "<end>"]
    assert "same, token for token" in _text(opened, "#divergence")


def test_a_failed_prompt_says_why(opened: Any) -> None:
    _choose(opened, "prompt", 2)
    WebDriverWait(opened, 20).until(lambda d: "failed" in _text(d, "#token-info"))
    assert _text(opened, "#token-info") == "This prompt failed: ValueError: <i>no room</i>"
    assert _all(opened, "#ours .tok") == []
    assert opened.get_log("browser") == []


def test_a_run_from_before_shows_its_texts_whole(opened: Any) -> None:
    _choose(opened, "run", 2)
    WebDriverWait(opened, 20).until(lambda d: "before texts were recorded" in _text(d, "#token-info"))
    assert _text(opened, "#ours") == "".join(TEXT)


def test_an_address_leads_to_a_pass(chromium: Any, report: Path) -> None:
    chromium.get("about:blank")
    chromium.get(f"{report.as_uri()}#run=1&prompt=1&pass=1")
    _wait(chromium, "#tree .node")
    assert _text(chromium, "#ours-title") == "vanilla on nasty"
    assert _text(chromium, "#pass-title") == "Pass 1 of 1"


def test_the_table_leads_to_its_tokens(opened: Any) -> None:
    _all(opened, "button[data-run='1']")[0].click()
    WebDriverWait(opened, 20).until(lambda d: "vanilla" in _text(d, "#ours-title"))
    assert opened.switch_to.active_element.get_attribute("id") == "run"


def test_the_table_sorts_and_says_so(opened: Any) -> None:
    speedup = _all(opened, "#figures thead button")[3]

    def order() -> list[str]:
        return [element.text for element in _all(opened, "#figures tbody th > .name")]

    speedup.click()
    assert order() == ["zero", "sense", "vanilla"]
    heading = _all(opened, "#figures thead th")[3]
    assert heading.get_attribute("aria-sort") == "descending"
    speedup.click()
    assert order() == ["vanilla", "sense", "zero"]
    assert heading.get_attribute("aria-sort") == "ascending"
    assert _text(opened, "#live") == "Sorted by Speedup, ascending"
    _all(opened, "#figures thead button")[0].click()
    assert order() == ["sense", "vanilla", "zero"]


def test_the_theme_follows_the_system_until_it_is_chosen(opened: Any) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = opened.execute_script(ground)
    browser.prefer(opened, "dark")
    dark = opened.execute_script(ground)
    button = opened.find_element("id", "theme")
    assert (dark != light, button.get_attribute("aria-pressed")) == (True, "true")
    button.click()
    assert (opened.execute_script(ground), button.get_attribute("aria-pressed")) == (light, "false")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("colour", ["way", "who"])
def test_every_text_has_the_contrast_of_level_aa(opened: Any, scheme: str, colour: str) -> None:
    browser.prefer(opened, scheme)
    opened.find_element("css selector", f"input[value={colour}]").click()
    opened.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true })")
    found = opened.execute_script(browser.CONTRASTS)
    assert len(found) > 200
    assert [entry for entry in found if entry[0] < 4.5] == []


def test_a_text_without_contrast_would_be_found(opened: Any) -> None:
    paint = "const s = document.querySelector(arguments[0]).style; s.color = s.fill = '#888'; s.background = '#666'"
    for selector in ("#ours .tok", ".chart .inside", "#pass-facts"):
        opened.execute_script(paint, selector)
    poor = [words for ratio, words in opened.execute_script(browser.CONTRASTS) if ratio < 4.5]
    assert len(poor) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_accessibility_checker_finds_nothing(opened: Any, scheme: str) -> None:
    browser.prefer(opened, scheme)
    opened.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true })")
    opened.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = opened.execute_async_script(
        "axe.run().then((r) => arguments[0](r.violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.html)])))"
    )
    assert found == []


def test_a_narrow_window_scrolls_down_only(opened: Any) -> None:
    browser.resize(opened, 360)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 360


def test_ten_runs_of_sixty_prompts_open_quickly(chromium: Any, tmp_path: Path) -> None:
    words = [f" w{place * 7919 % 997}" for place in range(128)]
    lines = [sample(str(place), words, committed=[4] * 31 + [3]) for place in range(60)]
    write_run(tmp_path, lines)
    (run,) = load_runs([tmp_path])
    out = tmp_path / "report.html"
    ten = [replace(run, manifest={**run.manifest, "method": f"m{place}"}) for place in range(10)]
    out.write_text(page(ten), encoding="utf-8")
    chromium.get("about:blank")
    started = perf_counter()
    chromium.get(out.as_uri())
    _wait(chromium, "#tree .node")
    assert perf_counter() - started < 10  # a second or so where the processor is free
