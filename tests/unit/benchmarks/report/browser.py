"""A headless Chromium, and colours as it paints them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--window-size=1400,1000",
)


def paths() -> tuple[str, str] | None:
    """Return the browser and its driver, None where one of them is not installed."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Start the browser with an empty profile."""
    found = paths()
    assert found is not None
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found[1]))
    driver.set_script_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()


def prefer(driver: Any, scheme: str) -> None:
    """Let the system ask for "light" or "dark"."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def resize(driver: Any, width: int) -> None:
    sizes = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)


# Every visible text with the contrast to the ground it stands on; mixed colours are read off a canvas.
CONTRASTS = """
const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const seen = new Map();
function rgba(colour) {
  if (!seen.has(colour)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    seen.set(colour, [r, g, b, a / 255]);
  }
  return seen.get(colour);
}
const over = (top, below) => below.map((part, at) => (at < 3 ? top[at] * top[3] + part * (1 - top[3]) : 1));
function light([r, g, b]) {
  const part = (value) => ((value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
}
function ground(element) {
  const stack = [];
  let svgGround = null;
  if (element.closest('svg')) {
    // The last shape drawn before the text, in the same group, is what it stands on.
    const text = element.closest('text');
    for (let before = text.previousElementSibling; before; before = before.previousElementSibling) {
      if (before.tagName === 'rect') { svgGround = before; break; }
    }
    const inBox = text.matches('.inside, .node text');
    if (svgGround && inBox) {
      const style = getComputedStyle(svgGround);
      const colour = rgba(style.fill);
      stack.push([...colour.slice(0, 3), colour[3] * Number(style.fillOpacity)]);
    }
  }
  for (let each = element; each; each = each.parentElement) stack.push(rgba(getComputedStyle(each).backgroundColor));
  return stack.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
}
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const unseen = 'script, title, desc, .hidden, :disabled';
  if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest(unseen)) continue;
  const style = getComputedStyle(element);
  const below = ground(element);
  const ink = over(rgba(element.closest('svg') ? style.fill : style.color), below);
  const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
  const words = walker.currentNode.data.trim().slice(0, 30);
  found.push([(a + 0.05) / (b + 0.05), `${element.tagName}.${element.getAttribute('class')}: ${words}`]);
}
return found;
"""
