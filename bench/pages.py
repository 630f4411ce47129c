"""Every page of an export in a real browser: console messages, requests, text that leaves a phone's screen, seconds.

    python bench/pages.py PAGES... [--every N]

PAGES are files or folders of `aj export --format html`. Each page is opened in Chromium as wide as a phone, with every
fold open. The slowest to be drawn are listed: until the first text is seen, until the script is done, and a frame
while scrolling.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Dialog, sync_playwright

PHONE = {"width": 390, "height": 844}
SLOWEST = 5
COUNTED = ("console messages, errors, dialogs", "requests beside the page itself", "pages wider than the screen")
FOLDS = "for (const fold of document.querySelectorAll('details')) fold.open = true"
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
READY = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
FRAME = """() => new Promise(done => {
  let count = 0; const start = performance.now();
  const step = () => {
    scrollBy(0, 1000);
    ++count < 30 ? requestAnimationFrame(step) : done((performance.now() - start) / count);
  };
  requestAnimationFrame(step); })"""


def looked_at(browser: Browser, file: Path, totals: dict[str, int]) -> tuple[float, float, float]:
    """(milliseconds to the first text, to the script's end, a frame while scrolling)."""
    page = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    said: list[Any] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message))
    page.on("pageerror", lambda error: said.append(error))

    def close(dialog: Dialog) -> None:
        said.append(dialog)
        dialog.dismiss()

    page.on("dialog", close)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    ready, painted, frame = page.evaluate(READY), page.evaluate(PAINTED), page.evaluate(FRAME)
    page.evaluate(FOLDS)
    counts = len(said), sum(url != file.as_uri() for url in asked), int(page.evaluate(WIDER))
    for what, count in zip(COUNTED, counts, strict=True):
        totals[what] += count
    page.close()
    return painted, ready, frame


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth page")
    given = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("needs chromium on the PATH", file=sys.stderr)
        return 2
    files = sorted({f.resolve() for path in given.pages for f in (path.glob("*.html") if path.is_dir() else [path])})
    files = files[:: given.every]
    totals = dict.fromkeys(COUNTED, 0)
    times: list[tuple[float, float, float, str]] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for file in files:
            times.append((*looked_at(browser, file, totals), file.name))
        browser.close()
    print(f"{len(files)} pages")
    for what, count in totals.items():
        print(f"{count:6} {what}")
    print("\nslowest, ms: first text, script done, a frame")
    for painted, ready, frame, name in sorted(times, reverse=True)[:SLOWEST]:
        print(f"{painted:8.0f} {ready:8.0f} {frame:6.1f}  {name[:80]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
