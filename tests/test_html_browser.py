"""The pages in a real browser: what they show, what they refuse, and how they are moved about in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from html_accounts import ATTACKS, account, hostile, long, user, usual

from agent_journal.render.html import Entry, index_page, session_page
from agent_journal.session import Account
from agent_journal.statistics import Tally

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")

TIMES = """() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done({
  ready: performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd,
  painted: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
  elements: document.getElementsByTagName('*').length}))))"""
IN_SIGHT = """id => { const box = document.getElementById(id).getBoundingClientRect();
  return box.bottom > 50 && box.top < innerHeight; }"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        # Chromium refuses its sandbox to root, as whom tests run in a container.
        sandbox = [] if getattr(os, "geteuid", lambda: 1)() else ["--no-sandbox"]
        launched = play.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield launched
        launched.close()


class Reader:
    """A page that was opened, and all it did besides being shown."""

    def __init__(self, browser: Any, file: Path, anchor: str = "", **look: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB", **look).new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = file.as_uri()
        self.page.goto(self.url + anchor)

    def quiet(self) -> bool:
        """Nothing run, said or asked for."""
        fetched = [url for url in self.asked if not url.startswith("data:image/svg+xml,%3Csvg")]
        assert (self.said, [url.partition("#")[0] for url in fetched]) == ([], [self.url])
        assert self.page.evaluate("window.hacked") is None
        return True

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def find(self, words: str) -> str:
        self.page.fill("#find", words)
        self.page.wait_for_timeout(300)
        return str(self.page.inner_text("#count"))

    @property
    def here(self) -> str:
        return str(self.page.evaluate("document.querySelector('.here')?.id ?? ''"))

    def close(self) -> None:
        self.page.context.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    readers: list[Reader] = []

    def open_page(shown: Account, anchor: str = "", theme: str = "auto", **look: Any) -> Reader:
        file = tmp_path / f"s{len(readers)}.html"
        file.write_text("".join(session_page(shown, theme=theme, index=None)), "utf-8")
        readers.append(Reader(browser, file, anchor, **look))
        return readers[-1]

    yield open_page
    for reader in readers:
        reader.close()


def test_attacks_run_nothing_and_ask_for_nothing(opened: Any) -> None:
    reader = opened(hostile())
    reader.press("t", "j", "j", "n")
    reader.page.wait_for_timeout(500)
    reader.page.mouse.move(400, 400)
    assert reader.quiet()
    shown = reader.page.inner_text("main")
    for attack in ATTACKS[:9]:
        assert attack in shown, attack
    assert reader.page.evaluate("document.title").startswith("</title></style><style>")
    assert reader.page.locator("main img, main svg, main script, main style, main iframe, main form").count() == 0


def test_links_of_an_attack_lead_to_the_web_alone(opened: Any) -> None:
    links = opened(hostile()).page.evaluate("[...document.links].map(a => a.protocol + a.hostname)")
    assert set(links) == {"file:", "https:example.org", "https:evil.example"}


def test_policy_stops_a_script_that_got_in(opened: Any) -> None:
    reader = opened(usual())
    evil = '<b onclick="window.hacked=1" style="color:red" id="evil">x</b>'
    reader.page.evaluate("evil => document.body.insertAdjacentHTML('beforeend', evil)", evil)
    reader.page.evaluate("document.getElementById('evil').click()")
    assert reader.page.evaluate("window.hacked") is None


def test_usual_page_is_quiet_in_both_themes(opened: Any) -> None:
    papers = []
    for scheme in ("light", "dark"):
        reader = opened(usual(), color_scheme=scheme)
        papers.append(reader.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert reader.quiet()
    assert papers == ["rgb(252, 251, 249)", "rgb(21, 23, 27)"]


def test_theme_button_goes_round_and_is_remembered(opened: Any) -> None:
    reader = opened(usual(), theme="dark")
    seen = [reader.page.inner_text("#theme")]
    for _ in range(3):
        reader.page.click("#theme")
        seen.append(reader.page.inner_text("#theme"))
    assert seen == ["Dark", "Auto", "Light", "Dark"]
    reader.page.click("#theme")
    reader.page.reload()
    assert reader.page.evaluate("document.documentElement.dataset.theme") == "auto"


def test_times_are_the_readers_own(opened: Any) -> None:
    page = opened(usual()).page
    assert page.inner_text("#m2 time") == "18:30"
    assert page.inner_text(".head time") == "1 Mar 2026, 18:30"
    assert page.inner_text("#m9 time") == "2 Mar 2026, 18:31"


def test_keys_go_from_message_to_message_and_prompt_to_prompt(opened: Any) -> None:
    reader = opened(usual())
    seen = []
    for key in "jjjknnpk":
        reader.press(key)
        seen.append(reader.here)
    assert seen == ["m1", "m2", "m3", "m2", "m9", "m9", "m2", "m1"]


def test_keys_are_letters_while_one_types(opened: Any) -> None:
    reader = opened(usual())
    reader.press("/")
    reader.page.keyboard.type("jnt?")
    assert (reader.here, reader.page.input_value("#find")) == ("", "jnt?")
    reader.press("Escape")
    assert reader.page.input_value("#find") == ""
    reader.press("j")
    assert reader.here == "m1"


def test_help_opens_and_closes(opened: Any) -> None:
    page = opened(usual()).page
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def test_search_counts_steps_and_opens_the_fold_of_a_hit(opened: Any) -> None:
    reader = opened(usual())
    assert reader.find("total = 0") == "1 of 1"
    assert reader.page.is_visible("#m4 ins")
    reader.press("Escape")
    reader.page.evaluate("scrollTo(0, 0)")
    assert reader.find("SUM") == "1 of 5"
    reader.press("Enter")
    assert reader.page.inner_text("#count") == "2 of 5"
    reader.press("Shift+Enter", "Shift+Enter")
    assert reader.page.inner_text("#count") == "5 of 5"
    assert reader.find("nowhere at all") == "no hit"
    assert reader.quiet()


def test_search_finds_words_across_colours(opened: Any) -> None:
    reader = opened(usual())
    assert reader.find("def total(values)") == "1 of 1"
    assert reader.page.evaluate("[...CSS.highlights.get('now')][0].toString()") == "def total(values)"


def test_only_messages_with_a_hit_are_left(opened: Any) -> None:
    reader = opened(usual())
    reader.find("yesterday")
    reader.page.click("#only")
    assert reader.page.locator(".message:visible").count() == 1
    reader.press("Escape")
    reader.page.focus("#find")
    reader.press("Escape")
    assert reader.page.locator(".message:visible").count() == 10


def test_folds_open_and_close_together(opened: Any) -> None:
    reader = opened(usual())
    assert not reader.page.is_visible("#m3 pre")
    reader.press("t")
    assert reader.page.locator(".fold:not([open])").count() == 0
    reader.press("t")
    assert reader.page.locator(".fold[open]").count() == 0


def test_permalink_opens_at_its_message(opened: Any) -> None:
    reader = opened(long(600), "#m500")
    reader.page.wait_for_timeout(300)
    assert reader.page.evaluate(IN_SIGHT, "m500")
    reader.page.click("#m501 .no")
    reader.page.wait_for_timeout(200)
    assert reader.page.url.endswith("#m501")
    assert reader.page.evaluate(IN_SIGHT, "m501")


def test_permalink_opens_the_fold_that_is_the_message(opened: Any) -> None:
    quiet = account(user("Context of the agent's own", is_meta=True), user("Go on"), *(user(f"{n}") for n in range(60)))
    reader = opened(quiet, "#m1")
    assert reader.page.is_visible("#m1 .prose")
    reader = opened(quiet, "#m40")
    assert not reader.page.is_visible("#m1 .prose")
    reader.page.evaluate("location.hash = '#m1'")
    reader.page.wait_for_timeout(200)
    assert reader.page.is_visible("#m1 .prose")
    assert (reader.here, reader.quiet()) == ("", True)


def test_enter_opens_and_closes_the_folds_of_the_message_one_is_at(opened: Any) -> None:
    reader = opened(usual())
    reader.press("j", "j", "j")
    assert (reader.here, reader.page.is_visible("#m3 pre")) == ("m3", False)
    reader.press("Enter")
    assert reader.page.is_visible("#m3 pre")
    reader.press("Enter")
    assert not reader.page.is_visible("#m3 pre")


def test_prompt_list_leads_to_the_prompt(opened: Any) -> None:
    reader = opened(long(600))
    reader.page.click("#prompts li:nth-child(40) a")
    reader.page.wait_for_timeout(300)
    assert reader.page.evaluate(IN_SIGHT, "m469")
    assert reader.page.inner_text("#prompts [aria-current]").startswith("Prompt 468")


@pytest.mark.parametrize("shown", [usual, hostile, long], ids=["usual", "hostile", "long"])
def test_phone_never_scrolls_sideways(opened: Any, shown: Any) -> None:
    reader = opened(shown(), viewport={"width": 390, "height": 844})
    reader.press("t")
    reader.page.wait_for_timeout(200)
    assert reader.page.evaluate("document.documentElement.scrollWidth") == 390
    assert not reader.page.is_visible("#prompts")
    reader.page.click("#menu")
    assert reader.page.is_visible("#prompts")


def test_words_without_a_space_wrap(opened: Any) -> None:
    wide = account(user("W" * 5000 + "\n\n`" + "c" * 5000 + "`\n\n| " + "t" * 900 + " |\n|-|\n"), title="T" * 500)
    reader = opened(wide, viewport={"width": 390, "height": 844})
    assert reader.page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_words_stand_out_from_what_is_behind_them(opened: Any, scheme: str) -> None:
    """WCAG AA: 4.5 to 1 for words, 3 to 1 for the edge of what can be pressed."""
    page = opened(usual(), color_scheme=scheme).page
    page.keyboard.press("t")
    low = page.evaluate(
        """() => {
          const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
          const over = (colours) => {
            paint.clearRect(0, 0, 1, 1);
            for (const colour of colours) { paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1); }
            return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3).map(c => c / 255)
              .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
              .reduce((sum, c, n) => sum + c * [.2126, .7152, .0722][n], 0);
          };
          const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
          const low = [];
          for (const e of document.querySelectorAll('body *')) {
            if (!e.checkVisibility({contentVisibilityAuto: false})) continue;
            const behind = [];
            for (let at = e; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
            const words = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
            const found = words ? ratio(over([...behind, getComputedStyle(e).color]), over(behind)) : 99;
            if (found < 4.5) low.push([e.className || e.tagName, Math.round(found * 100) / 100]);
            if (!e.matches('button, input, select')) continue;
            const edge = ratio(over([...behind, getComputedStyle(e).borderTopColor]), over(behind));
            if (edge < 3) low.push([e.id, 'edge', Math.round(edge * 100) / 100]);
          }
          return low;
        }"""
    )
    assert low == []


def test_paper_has_no_buttons_and_no_dark(opened: Any) -> None:
    reader = opened(usual(), theme="dark")
    reader.page.emulate_media(media="print")
    assert not reader.page.is_visible(".bar")
    assert not reader.page.is_visible("#prompts")
    assert reader.page.evaluate("getComputedStyle(document.body).color") == "rgb(35, 38, 44)"
    assert reader.page.pdf()[:5] == b"%PDF-"


def test_page_reads_without_its_script(opened: Any) -> None:
    reader = opened(usual(), java_script_enabled=False)
    assert reader.page.inner_text("#m2 time") == "09:30 UTC"
    assert reader.page.is_visible("#prompts")
    assert reader.page.locator(".bar button:visible, .bar input:visible").count() == 0


def test_long_session_is_soon_there(opened: Any) -> None:
    reader = opened(long())
    times = reader.page.evaluate(TIMES)
    print("1,500 messages:", {name: round(value) for name, value in times.items()})
    scrolled = reader.page.evaluate(
        """async () => { const began = performance.now(); let frames = 0;
        for (let y = 0; y < 60; y++) { scrollBy(0, 900); await new Promise(requestAnimationFrame); frames++; }
        return (performance.now() - began) / frames; }"""
    )
    print(f"a frame while scrolling: {scrolled:.1f} ms")
    assert reader.page.evaluate("scrollY") > 10_000
    assert reader.find("Step 1499") == "1 of 21"
    assert reader.quiet()


# --- the index ------------------------------------------------------------------------------------------


def test_index_filters_by_words_agent_and_project(browser: Any, tmp_path: Path) -> None:
    shown = [
        account(user("a"), title="Mend the sum", agent="codex", workspace="/w/shop"),
        account(user("b"), title="Mend the page", agent="gemini", workspace="/w/site"),
        account(user("c"), title=ATTACKS[3], agent=ATTACKS[0], workspace=f"/w/{ATTACKS[7]}", is_agent_session=True),
    ]
    entries = [Entry(f"s{n}.html", each.session, each.derived) for n, each in enumerate(shown)]
    file = tmp_path / "index.html"
    days = [Tally("2026-03-01", 2, 3), Tally("2026-03-02", 1, 1)]
    file.write_text("".join(index_page(entries, days, theme="auto")), "utf-8")
    reader = Reader(browser, file, viewport={"width": 390, "height": 844})
    page = reader.page

    def rows() -> list[str]:
        page.wait_for_timeout(150)
        return [str(text) for text in page.locator(".row:visible b").all_inner_texts()]

    assert len(rows()) == 3
    page.fill("#filter", "mend shop")
    assert rows() == ["Mend the sum"]
    page.fill("#filter", "mend")
    page.select_option("#agent", "gemini")
    assert rows() == ["Mend the page"]
    assert page.inner_text("#count") == "1 of 3"
    page.fill("#filter", "")
    page.select_option("#agent", label=ATTACKS[0])
    assert rows() == [f"sub-agent {ATTACKS[3]}"]
    page.uncheck("#subs")
    assert rows() == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert reader.quiet()
    reader.close()


def test_index_of_ten_thousand_sessions_is_soon_there(browser: Any, tmp_path: Path) -> None:
    shown = [
        account(
            user("x", minute=n * 60), title=f"Session {n} about something", workspace=f"/w/p{n % 40}", git_branch="main"
        )
        for n in range(10_000)
    ]
    entries = [Entry(f"s{n}.html", each.session, each.derived) for n, each in enumerate(shown)]
    file = tmp_path / "index.html"
    file.write_text("".join(index_page(entries, [], theme="auto")), "utf-8")
    reader = Reader(browser, file)
    print("10,000 sessions:", {name: round(value) for name, value in reader.page.evaluate(TIMES).items()})
    reader.page.fill("#filter", "Session 9999")
    reader.page.wait_for_timeout(400)
    assert reader.page.locator(".row:visible").count() == 1
    assert reader.quiet()
    reader.close()
