#!/usr/bin/env python3
"""The page in a real browser: search, filters, links, the back button, keys, accessibility, times and screenshots.

check.py PAGE SCREENSHOTS [AXE]   AXE is axe.min.js of axe-core; without it npm fetches it, where it can

Exit code 0 where everything passes or there is no browser, which is said; 1 otherwise.
"""

import base64
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import zlib

import webdriver

AXE = "axe-core@4.14.1"
FORM = "mma.mxf4nvf4.isa.4X.ue4m3"
# Milliseconds that are wanted: first paint from disk, and a key or a filter. Times are printed, not asserted: machines differ.
PAINT, FILTER = 300, 50
READY = "document.querySelector('#tabs a') && document.querySelector('main h1')"


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Page:
    """The page under test, in one browser."""

    def __init__(self, path, **options):
        self.path = path
        self.url = path.resolve().as_uri()
        self.browser = webdriver.Browser(**options)

    def show(self, hash_):
        # A new document each time: nothing is left of the view before.
        self.browser.open("about:blank")
        self.browser.open(self.url + hash_)
        self.browser.until(READY, f"{hash_} is drawn")

    def count(self):
        return int(self.browser.text("#count").split()[0].replace(",", ""))


def first_paint(page):
    paints = []
    for _ in range(5):
        page.show("")
        entries = "performance.getEntriesByName('first-contentful-paint')"
        page.browser.until(f"{entries}.length", "something is painted")
        paints.append(page.browser.run(f"return {entries}[0].startTime"))
    paint = sorted(paints)[2]
    print(f"first contentful paint: {paint:.0f} ms (median of 5; wanted: {PAINT})")


def answer(page):
    page.show("")
    browser = page.browser
    check("sm_121" in browser.text("main h1"), "the page opens on the answer")
    devices = browser.run("return document.querySelector('.notice').textContent")
    check("SM12x GPU" in devices, "the page says which SM12x GPUs ran")
    browser.click("main table a")
    browser.until("document.querySelector('#count')", "a group leads to its forms")
    check(page.count() > 0, "the group has forms")
    browser.back()
    browser.until("document.querySelector('.cards')", "back leads to the answer")


def search(page):
    browser = page.browser
    page.show("")
    browser.click("#query")
    browser.type("mxf4nvf4 4X ue4m3")
    browser.until("document.querySelector('#count')", "typing shows forms")
    # The address follows a moment later.
    browser.until("location.hash.includes('q=mxf4nvf4')", "the search is in the address")
    browser.until(f"document.querySelector('#results a')?.textContent.startsWith('mma')", "the form is found")
    found = page.count()
    check(0 < found < 200, f"{found} forms")
    for asked in ["mxf4nvf4 4X ue4m3 sm_121f", "#if SM12X_HAS_FORM(mma_mxf4nvf4_isa_4X_ue4m3)", "SM12X_HAS(mma_nvf4) 4X"]:
        page.show("#/forms?q=" + urllib.parse.quote(asked))
        found = browser.run("return [...document.querySelectorAll('#results a')].map(a => a.textContent)")
        check(FORM in found, f"{asked} finds {found[:3]}")
    page.show("#/forms?q=ldmatrix+b4")
    first = browser.run("return document.querySelector('#results a').textContent")
    check(first.startswith("ldmatrix"), f"ldmatrix b4 finds {first}")
    # A message as ptxas prints it, with a target of its own.
    page.show("")
    message = browser.run(
        "location.hash = '#/form/' + arguments[0];"
        "return new Promise(r => setTimeout(() => r(document.querySelector('code.message').textContent), 300))",
        FORM,
    )
    asked = "ptxas x.ptx, line 9; error   : " + message.replace("'sm_*'", "'sm_121'")
    page.show("")
    browser.run("const q = document.getElementById('query'); q.value = arguments[0]; q.dispatchEvent(new Event('input'))", asked)
    check(page.count() > 0, f"nothing found for {asked}")
    browser.click("#query")
    browser.press("Escape")
    browser.until("document.getElementById('query').value === ''", "Escape clears the search")


def filters(page):
    browser = page.browser
    page.show("#/forms")
    all_forms = page.count()

    def choose(name, value):
        browser.run(
            "const s = document.querySelector(`#filters [name=${arguments[0]}]`); if (s.type === 'checkbox') s.checked = true;"
            "else s.value = arguments[1]; s.dispatchEvent(new Event('change', { bubbles: true }))",
            name,
            value,
        )
        return page.count()

    counts = {"all": all_forms}
    for name, value in [("family", "mma"), ("target", "sm_121f"), ("answer", "accepted"), ("code", "native"), ("differs", "1")]:
        before = page.count()
        counts[f"{name}={value}"] = choose(name, value)
        check(0 < page.count() <= before, f"{name}={value}: {page.count()} of {before}")
    check(len(set(counts.values())) >= 4, f"filters narrow: {counts}")
    # The address follows a moment later.
    browser.until("['family=mma', 'differs=1'].every((part) => location.hash.includes(part))", "filters are in the address")
    address = browser.url()
    narrowed = page.count()
    page.show(address.split(page.url)[1])
    check(page.count() == narrowed, "the address alone restores the filters")
    page.show("#/forms?group=needs+a+suffix%2C+a+or+f&q=mxf4")
    check(page.count() > 0, "some forms need a suffix")
    browser.click("#results a")
    browser.until("document.querySelector('#verdict')", "a form opens")
    browser.back()
    browser.until("document.querySelector('#filters')", "back leads to the list")
    check(browser.run("return document.querySelector('#filters [name=group]').value").startswith("needs"), "with its filter")
    check(browser.run("return document.getElementById('query').value") == "mxf4", "and its search")
    browser.run("document.querySelector('#filters button[type=reset]').click()")
    check(page.count() == all_forms, "Clear shows all forms")


def form(page):
    browser = page.browser
    page.show(f"#/form/{FORM}")
    verdict = browser.text("#verdict")
    check("sm_121f" in verdict and "accepted" in verdict and "since 12.9" in verdict, verdict)
    cells = browser.run("return document.querySelectorAll('#cells td.answer').length")
    targets = browser.run("return document.querySelectorAll('#cells tbody tr').length")
    check(cells % targets == 0 and cells >= targets, f"{cells} cells of {targets} targets")
    copies = browser.run("return [...document.querySelectorAll('.copy')].map(b => b.title)")
    check(any(c.startswith("mma.sync") for c in copies), "the instruction can be copied")
    check(any(f"SM12X_HAS_FORM({FORM.replace('.', '_')})" in c for c in copies), "a predicate can be copied")
    check(any(c.startswith("sm121probe matrix") for c in copies), "a command can be copied")
    check(any(c == browser.url() for c in copies), "the link can be copied")
    page.show("#/form/no.such.form")
    check("No such form" in browser.text("h1"), "an unknown form is said to be unknown")
    page.show("#/form/%E0%A4%A")
    check("No such form" in browser.text("h1"), "a damaged address is no error")


def keyboard(page):
    browser = page.browser
    page.show("")
    browser.type("/")
    check(browser.run("return document.activeElement.id") == "query", "/ goes to the search")
    browser.type("cvt e2m1x2")
    browser.until("document.querySelector('#results a')", "forms are listed")
    browser.press("ArrowDown")
    check(browser.run("return document.activeElement.closest('#results') !== null"), "the arrow goes to the list")
    browser.press("Enter")
    browser.until("document.querySelector('#verdict')", "Enter opens the form")
    check(browser.run("return document.activeElement.id") == "main", "the new view has the focus")
    reached = set()
    for _ in range(60):
        browser.press("Tab")
        reached.add(browser.run("const a = document.activeElement; return a.className || a.id || a.tagName"))
    check("copy" in reached and "scroll" in reached, f"Tab reaches buttons and tables: {reached}")


MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'


def planted(path):
    """The page with markup in every text of its data, embedded as plain JSON."""
    html = path.read_text()
    begin = html.index(">", html.index('<script type="application/octet-stream"')) + 1
    end = html.index("</script>", begin)
    deflated = 'data-kind="deflate"' in html
    text = zlib.decompress(base64.b64decode(html[begin:end])) if deflated else html[begin:end]
    # Runs, versions and names of views are read by the script, not shown as they are.
    kept = {"grids", "grid", "says", "code", "toolkits", "targets", "image", "url", "status"}

    def plant(value, key=""):
        if isinstance(value, dict):
            return {k: v if k in kept or (key == "tabs" and k == "id") else plant(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [plant(v, key) for v in value]
        return value + MARKUP if isinstance(value, str) else value

    data = json.dumps(plant(json.loads(text))).replace("<", "\\u003c")
    return html[:begin].replace('data-kind="deflate"', 'data-kind="json"') + data + html[end:]


def hostile(page):
    """Text of the data stays text in every view: nothing that it holds becomes an element or runs."""
    browser, url = page.browser, page.url
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "planted.html"
        path.write_text(planted(page.path))
        page.url = path.as_uri()
        try:
            page.show("")
            views = browser.run("return [...document.querySelectorAll('#tabs a')].map(a => a.getAttribute('href'))")
            browser.run("location.hash = '#/forms?q=ptx'")
            browser.until("document.querySelector('#results a')", "forms are listed")
            views.append(browser.run("return document.querySelector('#results a').getAttribute('href')"))
            seen = 0
            for view in views:
                page.show(view)
                made = browser.run("return document.querySelectorAll('main script, body img[src=x], [onerror]').length")
                check(made == 0, f"{view} has {made} elements of the data")
                check(not browser.run("return window.hit"), f"{view} runs a script of the data")
                seen += browser.run("return document.body.textContent.includes('onerror=')")
            check(seen >= 3, "the planted text is shown")
        finally:
            page.url = url


def speed(page):
    browser = page.browser
    measure = """
        const { length } = document.querySelectorAll('#results');
        const q = document.getElementById('query');
        const times = [];
        for (const text of arguments[0]) {
            const begun = performance.now();
            q.value = text;
            q.dispatchEvent(new Event('input'));
            document.body.getBoundingClientRect();
            times.push(performance.now() - begun);
        }
        return times;
    """
    change = """
        const s = document.querySelector(`#filters [name=${arguments[0]}]`);
        const begun = performance.now();
        s.value = arguments[1];
        s.dispatchEvent(new Event('change', { bubbles: true }));
        document.body.getBoundingClientRect();
        return performance.now() - begun;
    """
    words = ["m", "mx", "mxf", "mxf4", "mxf4n", "e", "ldmatrix b4", "not supported on .target", "sm"]
    for slower in (1, 4):
        page.show("#/forms")
        browser.run("return new Promise(done => setTimeout(done, 500))")
        browser.run("document.getElementById('query').focus()")
        browser.cdp("Emulation.setCPUThrottlingRate", rate=slower)
        times = browser.run(measure, words)
        filters_ = [browser.run(change, name, value) for name, value in [("family", "mma"), ("target", "sm_121f"), ("answer", "rejected"), ("family", ""), ("answer", "")]]
        browser.cdp("Emulation.setCPUThrottlingRate", rate=1)
        typed, chosen = sorted(times), sorted(filters_)
        print(f"wanted: {FILTER} ms; at 1/{slower} of the speed: a key {typed[len(typed) // 2]:.0f} ms (at most {typed[-1]:.0f}), a filter {chosen[len(chosen) // 2]:.0f} ms (at most {chosen[-1]:.0f})")


def accessible(page, axe):
    browser = page.browser
    for view in ["", f"#/form/{FORM}", "#/forms?q=mxf4", "#/claims", "#/about"]:
        for theme in ("light", "dark"):
            page.show(view)
            browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
            browser.run(axe)
            found = browser.run("return axe.run(document, { resultTypes: ['violations'] }).then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html, v.nodes[0].failureSummary]))")
            serious = [f for f in found if f[0] in ("serious", "critical")]
            check(not serious, f"{view or '#/'} in {theme}: {serious}")
            for impact, name, html, _ in found:
                print(f"axe, {impact}: {name} in {view or '#/'}: {html[:100]}")


def shots(page, folder):
    browser = page.browser
    for name, view in [("answer", ""), ("forms", "#/forms?q=mxf4"), ("form", f"#/form/{FORM}"), ("claims", "#/claims?status=refuted")]:
        page.show(view)
        browser.run("document.documentElement.dataset.theme = 'light'")
        browser.screenshot(folder / f"{name}.png")
    page.show("")
    browser.run("document.documentElement.dataset.theme = 'dark'")
    browser.cdp("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    wide = browser.run("return document.documentElement.scrollWidth")
    check(wide <= 390, f"a phone scrolls sideways: {wide} pixels")
    browser.screenshot(folder / "phone-dark.png")


def axe_of(arguments):
    """The text of axe-core, and why there is none."""
    if len(arguments) > 2:
        return pathlib.Path(arguments[2]).read_text(), ""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            return "", f"npm cannot fetch {AXE}: {error}"
        if done.returncode:
            return "", f"npm cannot fetch {AXE}: {done.stderr.strip()[:200]}"
        with tarfile.open(pathlib.Path(folder) / done.stdout.strip().splitlines()[-1]) as archive:
            return archive.extractfile("package/axe.min.js").read().decode(), ""


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    if reason := webdriver.missing():
        print(f"skipped: {reason}")
        return 0
    path, folder = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    axe, without = axe_of(arguments)
    page = Page(path)
    failed = 0
    parts = {part.__name__: part for part in [first_paint, answer, search, filters, form, keyboard, hostile, speed]}
    if axe:
        parts["accessible"] = lambda page: accessible(page, axe)
    else:
        print(f"skipped: accessible: {without}")
    parts["shots"] = lambda page: shots(page, folder)
    try:
        for name, part in parts.items():
            try:
                part(page)
                print(f"ok: {name}")
            except (AssertionError, RuntimeError) as error:
                failed += 1
                print(f"FAILED: {name}: {error}")
            noise = [entry["message"] for entry in page.browser.log() if entry["level"] in ("SEVERE", "WARNING")]
            if noise:
                failed += 1
                print(f"FAILED: {name}: the console says {noise[:3]}")
    finally:
        page.browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
