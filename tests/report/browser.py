# SPDX-License-Identifier: BSD-3-Clause
"""Opens pages of `unisono report` in a headless Chromium and uses them as a person would: pointer, keyboard, filter, paper, dark.

browser.py CHROMIUM KIND PAGE [SCREENSHOTS]   KIND: plain, single, mapped, strange
Speaks Chromium's protocol over a pipe, so that nothing but Python and Chromium is needed. Prints what is wrong; exit status 1 then.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time


class Browser:
    def __init__(self, program, folder):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def wire():  # the protocol's ends are 3 and 4
            os.dup2(to_browser, 63)
            os.dup2(from_browser, 64)
            os.dup2(63, 3)
            os.dup2(64, 4)

        arguments = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
                     "--disable-background-networking", "--window-size=1360,900", f"--user-data-dir={folder}/profile", "about:blank"]
        self.process = subprocess.Popen(arguments, preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.events, self.rest, self.session = 0, [], b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            piece = os.read(self.read_end, 1 << 16)
            if not piece:
                raise EOFError("Chromium ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self):  # two frames: sizes are observed, and drawn
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")

    def open(self, page):
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.js("1")
            time.sleep(0.02)
        self.settle()

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[{"name": k.replace("_", "-"), "value": v} for k, v in features.items()])
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector, modifiers=0):
        x, y = self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); "
                       "const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1, modifiers=modifiers)
        self.settle()

    def key(self, name):
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Tab": 9}[name]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)
        self.settle()

    def choose(self, which, value):
        self.js(f"(() => {{ const e = document.getElementById('{which}'); e.value = {value}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})()")
        self.settle()

    def text(self, which):
        return self.js(f"document.getElementById('{which}').innerText")

    def trouble(self):
        """Errors, console messages, and everything that is fetched but the page."""
        found = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append("exception: " + str(p["exceptionDetails"].get("exception", {}).get("description")))
            elif method == "Runtime.consoleAPICalled":
                found.append("console: " + json.dumps(p["args"])[:300])
            elif method == "Log.entryAdded" and "willReadFrequently" not in p["entry"]["text"]:  # what these checks read themselves
                found.append("log: " + p["entry"]["text"])
            elif method == "Network.requestWillBeSent" and p.get("type") != "Document" and not p["request"]["url"].startswith("data:"):
                found.append("request: " + p["request"]["url"][:200])
            elif method == "Page.javascriptDialogOpening":
                found.append("dialog: " + p["message"])
        return found

    def shot(self, name):
        if SHOTS:
            data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
            pathlib.Path(SHOTS, name + ".png").write_bytes(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        self.process.wait(30)


FAILED = []
SHOTS = None


def check(fine, what):
    if not fine:
        FAILED.append(what)


# Pixels of a canvas that are neither nothing nor the ground.
PAINTED = """(selector) => [...document.querySelectorAll(selector)].map(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const ground = [d[0], d[1], d[2], d[3]].join(); let n = 0; for (let i = 0; i < d.length; i += 4) n += [d[i], d[i+1], d[i+2], d[i+3]].join() !== ground; return n; })"""


def painted(b, selector):
    return b.js(f"({PAINTED})({json.dumps(selector)})")


def find_cell(b):
    """Moves the pointer down the middle of the first panel until a cell is picked out."""
    left, top, width, height = b.js("(() => { const e = document.querySelector('canvas.points'); e.scrollIntoView({block: 'center'}); "
                                    "const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
    for column in (0.5, 0.35, 0.65, 0.25, 0.75, 0.15, 0.85):
        for row in range(1, 40):
            b.mouse("mouseMoved", left + column * width, top + height * row / 40)
            if not b.js("document.getElementById('tip').hidden"):
                return left + column * width, top + height * row / 40
    return None


def shown(b):
    return int("".join(c for c in b.text("shown").split(" of ")[0].split(" and ")[0] if c.isdigit()))


def use_pointer(b, panels):
    place = find_cell(b)
    check(place, "no cell is picked out under the pointer")
    if not place:
        return
    b.settle()
    check("LISI of" in b.text("cell"), f"the line under the pictures says {b.text('cell')!r}")
    check(b.text("cell").split()[0] in b.text("tip"), "tip and line name different cells")
    check(all(n > 0 for n in painted(b, "canvas.over")), "the cell is not ringed in every panel")
    check(len(painted(b, "canvas.over")) == panels, f"{len(painted(b, 'canvas.over'))} panels")
    kept = b.text("cell")
    for kind in ("mousePressed", "mouseReleased"):
        b.mouse(kind, *place, button="left", clickCount=1)
    b.mouse("mouseMoved", 5, 5)
    b.settle()
    check(b.text("cell") == kept, f"a click does not keep the cell: {kept!r} became {b.text('cell')!r}")
    b.shot("picked")


def use_keyboard(b):
    b.js("document.querySelector('canvas.points').focus()")
    b.key("Escape")
    check(not any(painted(b, "canvas.over")), "Escape does not let go")
    b.key("ArrowRight")
    first = b.text("cell")
    b.key("ArrowLeft")
    second = b.text("cell")
    b.key("ArrowDown")
    check("LISI of" in first and first != second and b.text("cell") != second, "arrow keys do not go from cell to cell")
    b.key("Escape")
    b.js("document.querySelector('#legend .key').focus()")
    b.key("ArrowDown")
    check(b.js("document.activeElement === document.querySelectorAll('#legend .key')[1]"), "arrow keys do not go along the legend")
    unnamed = b.js("[...document.querySelectorAll('button, select, input, canvas[tabindex]')].filter(e => !(e.getAttribute('aria-label') || "
                   "e.innerText.trim() || e.closest('label'))).length")
    check(unnamed == 0, f"{unnamed} controls have no name")


def use_filter(b):
    everything = shown(b)
    before = painted(b, "canvas.points")
    b.click("#legend li:nth-child(1) .key")
    b.mouse("mouseMoved", 5, 5)
    b.settle()
    one_less = shown(b)
    check(0 < one_less < everything, f"hiding a level leaves {one_less} of {everything} cells")
    check(b.js("document.querySelector('#legend .key').getAttribute('aria-pressed')") == "false", "a hidden level is not said to be hidden")
    check(painted(b, "canvas.points") != before, "hiding a level changes no picture")
    b.shot("filtered")
    b.click("#legend li:nth-child(1) .key", modifiers=8)
    alone = shown(b)
    check(alone == everything - one_less, f"isolating a level leaves {alone} cells, hiding it left {one_less} of {everything}")
    b.click("#reset")
    check(shown(b) == everything, "not all cells come back")


def use_all_choices(b):
    for layout in range(b.js("document.getElementById('layout').options.length")):
        b.choose("layout", layout)
        for colour in range(b.js("document.getElementById('colour').options.length")):
            b.choose("colour", colour)
            check(all(n > 50 for n in painted(b, "canvas.points")), f"layout {layout}, colour {colour}: nothing is drawn")
            check(b.js("document.querySelectorAll('#legend li').length") > 0, f"colour {colour} has no legend")
        b.shot(f"layout_{layout}")
    b.choose("layout", 0)
    b.choose("colour", 0)


def use_themes(b):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = b.js(ground)
    b.media(prefers_color_scheme="dark", prefers_reduced_motion="reduce")
    dark = b.js(ground)
    check(light != dark, "a dark system changes nothing")
    check(b.js("getComputedStyle(document.getElementById('theme')).transitionDuration") == "0s", "reduced motion still moves")
    b.shot("dark")
    b.click("#theme")
    check(b.js(ground) == light, "the switch does not go to light")
    b.click("#theme")
    b.click("#theme")
    b.media()
    check(b.js(ground) == light, "a light system stays dark")


def use_paper(b, panels):
    b.js("dispatchEvent(new Event('beforeprint'))")
    check(b.js("document.querySelectorAll('svg.paper path').length") > panels, "on paper the pictures are missing")
    b.js("dispatchEvent(new Event('afterprint'))")
    check(b.js("document.querySelectorAll('svg.paper').length") == 0, "drawings for paper stay on the screen")
    pdf = base64.b64decode(b.call("Page.printToPDF", printBackground=True)["data"])
    check(pdf[:5] == b"%PDF-" and len(pdf) > 20000, "nothing is printed")
    if SHOTS:
        pathlib.Path(SHOTS, "paper.pdf").write_bytes(pdf)


def fits(b):
    for width in (390, 760, 1360):
        b.size(width, 900)
        check(b.js("document.documentElement.scrollWidth") <= width, f"the page is wider than {width}")
        b.shot(f"wide_{width}")


def is_safe(b):
    check(b.js("window.hacked") is None, "a name ran as a script")
    check(b.js("document.scripts.length") == 2, "there are more scripts than the page's own")
    check(b.js("document.querySelectorAll('img, iframe, object, embed, link, base, form, script[src]').length") == 0, "a name made an element")
    check(b.js("[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !a.name.startsWith('on')))"), "a name made a handler")


def strange(b):
    legend = b.text("legend")
    check("</script><script>window.hacked = 1</script>" in legend, "the name that is markup is not shown as it is")
    check("\u2421" in legend and "\u241b" in legend and "\u27e8U+2028\u27e9" in legend and "\u27e8U+202E\u27e9" in legend, "control characters are not shown")
    check(b.js("document.querySelectorAll('#legend li').length") <= 300, "the legend has a row for each of very many levels")
    check(b.js("document.title").startswith("</title><script>"), f"the title is {b.js('document.title')!r}")
    if not b.js("document.getElementById('legend-search').hidden"):
        b.js("(() => { const e = document.getElementById('legend-search'); e.value = 'hacked = 1'; e.dispatchEvent(new Event('input')); })()")
        check(b.js("document.querySelectorAll('#legend li').length") == 1, "a name cannot be found in the legend")
        b.js("(() => { const e = document.getElementById('legend-search'); e.value = ''; e.dispatchEvent(new Event('input')); })()")


def plain(b, panels):
    check(b.text("title") == "A title", f"the heading is {b.text('title')!r}")
    for words in ("LISI of batch", "How far cells moved", "Convergence"):
        check(words in b.js("document.body.innerText"), f"{words!r} is not on the page")
    use_filter(b)
    if panels == 2:
        for words in ("Before", "After", "type_01", "Parameters", "max-rounds", "Rounds", "spread before", "Time and memory"):
            check(words in b.js("document.body.innerText"), f"{words!r} is not on the page")


def mapped(b):
    """One map of one embedding: said to be of that one; by LISI, of which there are two, in two panels of the same places."""
    check(b.js("document.getElementById('layout').selectedOptions[0].text").startswith("X_umap"), "the page does not open with X_umap")
    caption = "document.querySelector('figcaption').innerText"
    check("Before" in b.js(caption) and "X_umap" in b.js(caption), f"the map is called {b.js(caption)!r}")
    check("it was made from X_pca;" in b.text("layout-note"), f"the note says {b.text('layout-note')!r}")
    lisi = b.js("[...document.getElementById('colour').options].findIndex(o => o.text.startsWith('LISI of batch'))")
    b.choose("colour", lisi)
    captions = b.js("[...document.querySelectorAll('figcaption')].map(e => e.innerText).join('|')")
    check(len(painted(b, "canvas.points")) == 2 and "Before" in captions and "After" in captions and "X_pca_harmony" in captions,
          f"by LISI the map has the panels {captions!r}")
    b.shot("by_lisi")
    b.choose("colour", 0)
    check(len(painted(b, "canvas.points")) == 1, "the map is shown twice in the same colours")


def main():
    global SHOTS
    program, kind, page = sys.argv[1:4]
    SHOTS = sys.argv[4] if len(sys.argv) > 4 else None
    panels = 1 if kind in ("single", "mapped") else 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        b = Browser(program, folder)
        try:
            b.open(page)
            b.size(1360, 900)
            b.shot("light")
            check(len(painted(b, "canvas.points")) == panels and all(n > 50 for n in painted(b, "canvas.points")), "the pictures are empty")
            is_safe(b)
            if kind == "strange":
                strange(b)
            else:
                plain(b, panels)
            if kind == "mapped":
                mapped(b)
            use_pointer(b, panels)
            use_keyboard(b)
            use_all_choices(b)
            use_themes(b)
            use_paper(b, panels)
            fits(b)
            is_safe(b)
            FAILED.extend(b.trouble())
        finally:
            b.close()
    print("\n".join(f"{kind}: {line}" for line in FAILED) or f"{kind}: fine")
    return 1 if FAILED else 0


sys.exit(main())
