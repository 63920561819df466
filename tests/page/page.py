#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a real browser, on invented answers: 16 and 10,000 nodes, light and dark.

Goal: everything that the page promises is there, by mouse and by keyboard, stays quick with
10,000 nodes, survives a daemon that goes away, and text of users never becomes markup.

With `--pictures DIR` the screenshots are kept there.
"""

import contextlib
import os
import sys
import tempfile
import unittest

from slurmcluster.suite import Cases, Suite, command_line, run, until
from stub import Answers, Stub
from webdriver import Browser

SOON_S = 15.0
PICTURES = tempfile.gettempdir()
KEEP = False
DOCS = None
DOWN, RIGHT, TAB, ENTER = "\ue015", "\ue014", "\ue004", "\ue007"
END, HOME = "\ue010", "\ue011"


def settled(browser, url):
    """Loads the page and waits for its first refresh."""
    browser.open(url)
    until(lambda: browser.run("return document.documentElement.dataset.loaded") == "yes",
          "the page is loaded", SOON_S)


def least_draw_ms(browser):
    """The least time of five draws of the map: of the page, not of a busy machine."""
    return browser.run("const times = []; for (let i = 0; i < 5; i++) {"
                       "const t = performance.now(); draw(); times.push(performance.now() - t); }"
                       "return Math.min(...times)")


def picture(browser, name):
    """Keeps a screenshot if asked to."""
    if KEEP:
        browser.screenshot(os.path.join(PICTURES, name + ".png"))


def text(browser, selector):
    """Visible text of an element."""
    return browser.run("return document.querySelector(arguments[0]).innerText", selector)


def heat_name(answers, node):
    """Name of a node, and its leaf, as the page writes them."""
    heat = answers.bodies["v1/heat"]
    return f"{heat['names'][node]}, {heat['leaves'][heat['leaf'][node]]}:"


# Relative luminance contrast of WCAG 2 for every visible text of the page.
CONTRAST = """
const lin = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const lum = (c) => 0.2126 * lin(c[0]) + 0.7152 * lin(c[1]) + 0.0722 * lin(c[2]);
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const worst = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.closest(".off, .skip, noscript")) continue;
  let back = e, colour;
  do { colour = parse(getComputedStyle(back).backgroundColor); back = back.parentElement; }
  while (back && colour.length === 4 && colour[3] === 0);
  const a = lum(parse(getComputedStyle(e).color)), b = lum(colour);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) worst.push([e.tagName, e.textContent.slice(0, 30), ratio]);
}
return worst;
"""


class PageTest(unittest.TestCase):
    """See the module."""

    def check_common(self, browser):
        """No errors, nothing of users run, nothing loaded from elsewhere, nothing cut off."""
        self.assertEqual(browser.console(), [])
        self.assertNotEqual(browser.run("return document.title"), "owned")
        self.assertEqual(browser.run("return document.images.length"), 0)
        elsewhere = browser.run(
            "return performance.getEntriesByType('resource').map((e) => e.name)"
            ".filter((name) => !name.startsWith(location.origin))")
        self.assertEqual(elsewhere, [])
        wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
        self.assertLessEqual(wide, 0, "the page scrolls sideways")
        self.assertEqual(browser.run(CONTRAST), [], "contrast below 4.5")

    def test_everything_is_shown(self):
        """16 nodes: texts of all sections, mouse and keyboard."""
        answers = Answers(16)
        with Stub(answers) as stub, Browser() as browser:
            settled(browser, stub.url)
            self.assertIn("tundra", text(browser, "h1"))
            self.assertIn("mode enforce", text(browser, "#chips"))
            self.assertEqual(text(browser, "#nodes-count"), "16 nodes")
            self.assertIn("620 pending jobs", text(browser, "#queue-count"))
            self.assertIn("gres/gpu is short", text(browser, "#jobs"))
            self.assertIn("capability_history", text(browser, "#collectors"))
            self.assertIn("31 s", text(browser, "#collectors"), "age of the oldest value")
            self.assertIn("13 of 16 agents", text(browser, "#agents"))
            uses = text(browser, "#uses")
            for words in ("Data that methods use", "gang.speed", "8 of 16", "history", "none"):
                self.assertIn(words, uses)
            self.assertIn("topology", text(browser, "#reasons"))
            self.assertIn("<img src=x", text(browser, "#collectors"), "markup stays text")
            self.came_of_it(browser)
            self.keyboard(browser, answers)
            self.explanation(browser)
            picture(browser, "small-light")
            self.check_common(browser)

    def came_of_it(self, browser):
        """Gains, the queue over time, methods and groups; what is not known is said to be so."""
        gains = text(browser, "#gains")
        for words in ("7,480 of 7,600 answers placed so", "5 min (7,100 jobs)", "3.1 %, mean",
                      "1.31 a job of several nodes, 1.28", "1000.00 kWh of 5,000 jobs",
                      "unknown: no data job was placed", "unknown: no start in mode shadow"):
            self.assertIn(words, gains)
        lines = browser.run("return [...document.querySelectorAll('#past polyline')].map("
                            "(line) => line.getBoundingClientRect().width)")
        self.assertEqual(len(lines), 2)
        self.assertGreater(min(lines), 300, "lines over the whole picture")
        methods = text(browser, "#methods")
        for words in ("gang", "2.1 %", "not known", "<img src=x"):
            self.assertIn(words, methods)
        groups = text(browser, "#groups")
        for words in ("gpu*", "cpu*", "gres/gpu"):
            self.assertIn(words, groups)
        self.assertIn("waiting", text(browser, "#past-note"))

    def keyboard(self, browser, answers):
        """The map by arrow keys, dimensions by arrow keys, the first Tab skips."""
        browser.press(TAB)
        self.assertEqual(browser.run("return document.activeElement.className"), "skip")
        browser.run("document.getElementById('heat').focus()")
        browser.press(RIGHT, RIGHT, RIGHT)
        name = answers.bodies["v1/heat"]["names"][2]
        self.assertTrue(text(browser, "#node").startswith(name + ":"), text(browser, "#node"))
        browser.run("document.querySelector('#dimensions [aria-checked=true]').focus()")
        browser.press(RIGHT)
        chosen = "return document.querySelector('#dimensions [aria-checked=true]').innerText"
        self.assertEqual(browser.run(chosen), "mem")
        self.assertEqual(browser.run("return document.activeElement.innerText"), "mem")
        browser.keys("#find", "cpu00003")
        self.assertTrue(text(browser, "#node").startswith("cpu00003:"))
        self.assertEqual(text(browser, "#nodes-count"), "1 of 16 nodes")

    def explanation(self, browser):
        """Opens by keyboard and stays open over a refresh."""
        browser.run("document.getElementById('why-41020').focus()")
        browser.press(ENTER)
        explained = lambda: "lacking on 398 nodes" in text(browser, "#jobs")  # noqa: E731
        until(explained, "the explanation opens", SOON_S)
        browser.run("refresh()")
        until(explained, "it stays open", SOON_S)
        self.assertEqual(browser.run("return document.activeElement.id"), "why-41020")

    def test_ten_thousand_nodes_in_the_dark(self):
        """The map is drawn in time and every node can be reached."""
        with Stub(Answers(10_000)) as stub, Browser(dark=True) as browser:
            settled(browser, stub.url)
            dark = "return matchMedia('(prefers-color-scheme: dark)').matches"
            self.assertTrue(browser.run(dark))
            self.assertEqual(text(browser, "#nodes-count"), "10,000 nodes")
            took = least_draw_ms(browser)
            self.assertLess(took, 500, "ms to draw the map once")
            size = browser.run("const c = document.getElementById('heat');"
                               "return [c.clientWidth, c.clientHeight, state.cells.size]")
            self.assertGreaterEqual(size[2], 4)
            self.assertLess(size[1], 900)
            browser.run("document.getElementById('heat').focus()")
            browser.press("\ue010")
            self.assertTrue(text(browser, "#node").startswith("cpu06000:"))
            drawn = browser.run("const c = document.getElementById('heat');"
                                "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height)"
                                ".data; const s = new Set(); for (let i = 0; i < d.length; i += 4)"
                                " s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size")
            self.assertGreater(drawn, 20, "colours of the map")
            picture(browser, "large-dark")
            self.check_common(browser)

    def test_nodes_lie_by_leaf_switch(self):
        """Names of the leaves, keys and pointer within them, and the button that ends it."""
        answers = Answers(200).on_leaves([64, 64, 32, 8, 1, 1, 1, 16])
        heat = answers.bodies["v1/heat"]
        heat["jobs"][168] = heat["jobs"][169] = 0
        with Stub(answers) as stub, Browser(dark=True) as browser:
            settled(browser, stub.url)
            idle = sum(all(heat["jobs"][i] == 0 and heat["state"][i] for i in nodes)
                       for nodes in self.leaves(heat).values())
            self.assertGreater(idle, 0, "an idle leaf to be counted")
            self.assertEqual(text(browser, "#leaves"),
                             f"8 leaf switches, {idle} wholly idle; 13 nodes on none.")
            browser.run("document.getElementById('heat').focus()")
            browser.press(END)
            self.assertTrue(text(browser, "#node").startswith(heat["names"][199] + ":"))
            browser.press(HOME, *[RIGHT] * 64)
            self.assertTrue(text(browser, "#node").startswith(heat["names"][64] + ", leaf002:"))
            self.point(browser, 170)
            self.assertTrue(text(browser, "#node").startswith(heat["names"][170] + ", leaf007:"))
            picture(browser, "leaves")
            browser.run("document.getElementById('by-leaf').click()")
            self.point(browser, 130)
            self.assertTrue(text(browser, "#node").startswith(heat["names"][130] + ", leaf003:"))
            self.check_common(browser)
        answers = Answers(10_000).on_leaves([25] * 400, "block")
        with Stub(answers) as stub, Browser() as browser:
            settled(browser, stub.url)
            self.assertIn("400 blocks", text(browser, "#leaves"))
            self.point(browser, 9999)
            self.assertTrue(text(browser, "#node").startswith(heat_name(answers, 9999)))
            took = least_draw_ms(browser)
            self.assertLess(took, 500, "ms to draw the map once")
            picture(browser, "blocks")
            self.check_common(browser)

    def leaves(self, heat):
        """Nodes of each leaf."""
        found = {}
        for node, leaf in enumerate(heat["leaf"]):
            if leaf is not None:
                found.setdefault(leaf, []).append(node)
        return found

    def point(self, browser, node):
        """Moves the pointer to the middle of a node's cell."""
        browser.run("const [x, y] = corner(arguments[0], state.cells);"
                    "const box = document.getElementById('heat').getBoundingClientRect();"
                    "const at = state.cells.size / 2 - 0.5;"
                    "document.getElementById('heat').dispatchEvent(new PointerEvent('pointermove',"
                    " {clientX: box.x + x + at, clientY: box.y + y + at}))", node)

    def test_narrow_window(self):
        """A telephone: one column, nothing cut off."""
        with Stub(Answers(300)) as stub, Browser(width=500, height=1400) as browser:
            settled(browser, stub.url)
            picture(browser, "narrow")
            self.check_common(browser)

    def test_screenshots_of_the_docs(self):
        """Both pictures of docs/pictures can be taken, and are small."""
        answers = Answers(240).on_leaves([32] * 7)
        answers.bodies["v1/plan"]["methods"][1]["error"] = None
        with Stub(answers) as stub, Browser(width=1200, height=900) as browser:
            settled(browser, stub.url)
            for name, at in (("page-nodes", "h1"), ("page-gains", "#came")):
                browser.run("document.querySelector(arguments[0]).scrollIntoView()", at)
                path = os.path.join(DOCS or tempfile.gettempdir(), name + ".png")
                browser.screenshot(path)
                self.assertLess(os.path.getsize(path), 300_000)
                self.assertGreater(os.path.getsize(path), 20_000)
                if not DOCS:
                    os.remove(path)

    def test_a_daemon_that_goes_away(self):
        """The page says so, and that it is over; parts that are missing do not hurt others."""
        answers = Answers(16)
        answers.bodies["v1/collectors"] = None
        answers.bodies["v1/plan"] = answers.bodies["v1/report"] = None
        with Stub(answers) as stub, Browser() as browser:
            settled(browser, stub.url)
            self.assertIn("No data service", text(browser, "#collectors"))
            self.assertEqual(text(browser, "#nodes-count"), "16 nodes")
            self.assertIn("no such resource", text(browser, "#gains"), "unknown, and why")
            self.assertTrue(browser.run("return document.getElementById('problem').hidden"))
            answers.down = True
            browser.run("return refresh()")
            self.assertIn("does not answer", text(browser, "#problem"))
            picture(browser, "away")
            answers.down = False
            browser.run("return refresh()")
            self.assertTrue(browser.run("return document.getElementById('problem').hidden"))
            browser.run("const period = document.getElementById('period');"
                        "period.value = ''; return period.onchange()")
            self.assertIn("/v1/report?since=0", stub.requests, "all that is recorded")
            browser.run("document.getElementById('pause').click()")
            before = len(stub.requests)
            browser.run("return refresh()")
            self.assertEqual(len(stub.requests), before, "a paused page asks nothing")


case = Cases()
case.unittests(PageTest)


def options(parser):
    """What this suite has beside the usual."""
    parser.add_argument("--pictures", metavar="DIR", help="keep screenshots there")
    parser.add_argument("--docs", metavar="DIR", help="and those of the docs there")


@contextlib.contextmanager
def setting(_root, args):
    """Nothing but where pictures go."""
    global PICTURES, KEEP, DOCS  # pylint: disable=global-statement
    DOCS = args.docs
    if args.docs:
        os.makedirs(args.docs, exist_ok=True)
    if args.pictures:
        PICTURES, KEEP = args.pictures, True
        os.makedirs(PICTURES, exist_ok=True)
    yield Suite()


if __name__ == "__main__":
    sys.exit(run(command_line(__doc__, case, options), setting))
