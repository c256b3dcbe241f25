"""The report page in a real browser: no errors, the slider works, and it fits on a phone."""

import os

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor
from levelprox.report import write_page
from tests.support.browser import Browser, find_browser
from tests.support.estimator_cases import may_diverge
from tests.unit.report.test_page import EVIL

KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "Enter": 13}
PARTS = ("tiles", "features", "left-out", "facts", "status", "classes")
SIZES = """[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()
  && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
  .map((e) => parseFloat(getComputedStyle(e).fontSize))"""
# Relative luminance of text against what is behind it, by WCAG 2.
CONTRASTS = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    const own = e ? parse(getComputedStyle(e).backgroundColor) : [255, 255, 255];
    const part = own[3] ?? 1;
    if (part === 1 || !e) return own;
    const below = behind(e.parentElement);
    return own.slice(0, 3).map((v, i) => part * v + (1 - part) * below[i]);
  };
  const found = [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.disabled
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).map((e) => {
      const style = getComputedStyle(e);
      const a = light(parse(e instanceof SVGElement ? style.fill : style.color)), b = light(behind(e));
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.trim().slice(0, 40)];
    });
  return found.sort((a, b) => a[0] - b[0])[0];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        if os.environ.get("LEVELPROX_NEEDS_BROWSER"):
            pytest.fail("no Chromium is there, and LEVELPROX_NEEDS_BROWSER is set")
        pytest.skip("no Chromium is there; Debian's package chromium has one")
    one = Browser(program, tmp_path_factory.mktemp("browser") / "profile")
    yield one
    one.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A model that chose, of classes, with test data; one under a level; and one whose names are hostile."""
    pandas = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("pages")
    iris = load_iris(as_frame=True)
    classes = iris.target_names[iris.target]
    train = np.random.default_rng(0).permutation(150)[:100]
    test = np.setdiff1d(np.arange(150), train)
    with may_diverge():
        chosen = SparseClassifierCV(n_features=[0, 1, 2, 3], cv=2).fit(iris.data.iloc[train], classes[train])
        options = {"test": (iris.data.iloc[test], classes[test])}
        write_page(folder / "classes.html", chosen, iris.data.iloc[train], classes[train], **options)
    X, y = load_diabetes(return_X_y=True)
    within = SparseRegressor(level=2.5).fit(X, y)
    write_page(folder / "residuals.html", within, X, y, level=np.linspace(0.3, 5, 11))
    names = pandas.Index([*EVIL, "a" * 300, "b c " * 40, "c"], dtype=object)  # Arrow's strings cannot hold them
    frame = pandas.DataFrame(X, columns=names)
    hostile = SparseRegressor(n_features=10).fit(frame, y)
    write_page(folder / "hostile.html", hostile, frame, y, title=EVIL[0])
    write_page(folder / "single.html", hostile, frame, y, fits=[])
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Where screenshots go: LEVELPROX_SCREENSHOTS, or where pytest keeps its files."""
    wanted = os.environ.get("LEVELPROX_SCREENSHOTS")
    folder = tmp_path_factory.mktemp("screenshots") if wanted is None else type(tmp_path_factory.getbasetemp())(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def text(browser, name):
    return browser.run(f"document.getElementById('{name}').textContent")


def label(browser):
    return text(browser, "budget")


def marks(browser):
    """Where the marks of the selected budget stand, one for each chart."""
    return browser.run("[...document.querySelectorAll('.mark')].map((m) => m.getBoundingClientRect().x)")


def middle(browser, selector):
    box = f"document.querySelector({selector!r}).getBoundingClientRect()"
    return browser.run(f"(() => {{ const b = {box}; return [b.x + b.width / 2, b.y + b.height / 2]; }})()")


def of_letters(path):
    """A page of 26 classes, one of which has a long name."""
    rng = np.random.default_rng(0)
    names = np.array([*"abcdefghijklmnopqrstuvwxy", "z, of which there is more to say than fits"])
    y = rng.integers(0, 26, 600)
    X = (rng.standard_normal((600, 12)) + (y[:, None] % np.arange(2, 14)))[:, [7, 11]]  # a search of all takes long
    with may_diverge():
        model = SparseClassifier(n_features=2, tol=1e-3).fit(X, names[y])
        write_page(path, model, X, names[y], fits=[])


def test_the_table_of_many_classes_scrolls_in_its_box(browser, tmp_path, pictures):
    """No word is broken into letters, one on each line."""
    of_letters(tmp_path / "letters.html")
    for width in (360, 1200):
        browser.open(tmp_path / "letters.html", width, 900)
        heights = browser.run("[...document.querySelectorAll('.classes th')].map((e) => e.clientHeight)")
        assert max(heights) < 50
        box = "document.getElementById('classes').parentElement"
        assert browser.run(f"{box}.scrollWidth > {box}.clientWidth")
        assert browser.run("document.scrollingElement.scrollWidth") <= width
        browser.run("document.querySelector('#classes').scrollIntoView({ block: 'center' })")
        browser.screenshot(pictures / f"letters-{width}.png", whole=False)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["classes", "residuals", "hostile", "single"])
def test_it_is_readable_and_complains_of_nothing(browser, pages, pictures, name, width, dark):
    browser.open(pages / f"{name}.html", width, 740 if width == 360 else 900, dark)
    browser.screenshot(pictures / f"{name}-{width}-{'dark' if dark else 'light'}.png")
    assert browser.run("document.scrollingElement.scrollWidth") <= width
    assert min(browser.run(SIZES)) >= 12
    ratio, *where = browser.run(CONTRASTS)
    assert ratio >= 4.5, where
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(251, 251, 249)")
    browser.run("document.getElementById('next').click(), document.getElementById('previous').click()")
    assert browser.complaints() == []


def test_the_slider_follows_the_keyboard_and_everything_follows_the_slider(browser, pages):
    browser.open(pages / "classes.html")
    own = browser.run("JSON.parse(document.getElementById('data').textContent).own")
    labels = [f"at most {k} feature{'s' * (k != 1)}" for k in range(4)]
    assert label(browser) == labels[own]
    browser.run("document.getElementById('slider').focus()")
    browser.press("Home", KEYS["Home"])
    seen = [(label(browser), text(browser, "features"), text(browser, "facts"), text(browser, "tiles"), marks(browser))]
    for _ in range(3):
        browser.press("ArrowRight", KEYS["ArrowRight"])
        parts = (label(browser), text(browser, "features"), text(browser, "facts"), text(browser, "tiles"))
        seen.append((*parts, marks(browser)))
    assert [one[0] for one in seen] == labels
    for part in range(1, 4):
        assert len({one[part] for one in seen}) == 4
    places = np.array([one[4] for one in seen])
    assert places.shape == (4, 3) and np.all(np.diff(places, axis=0) > 20)
    np.testing.assert_allclose(places, places[:, :1] * np.ones(3), atol=0.1)  # one below the other
    assert browser.run("document.getElementById('next').disabled")
    assert browser.run("document.getElementById('slider').getAttribute('aria-valuetext')") == labels[3]
    browser.press("End", KEYS["End"])
    browser.press("ArrowLeft", KEYS["ArrowLeft"])
    assert label(browser) == labels[2]
    rows = browser.run("document.querySelectorAll('#features tr').length")
    assert rows == 3  # two features and the intercept


def test_keys_work_before_anything_has_the_focus_and_the_focus_is_seen(browser, pages):
    browser.open(pages / "residuals.html")
    before = label(browser)
    browser.press("ArrowLeft", KEYS["ArrowLeft"])
    assert label(browser) != before
    for wanted in ("own", "previous", "slider", "next"):
        browser.press("Tab", KEYS["Tab"])
        assert browser.run("document.activeElement.id") == wanted
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_buttons(browser, pages):
    browser.open(pages / "classes.html")
    browser.run("document.getElementById('slider').focus()")
    browser.press("Home", KEYS["Home"])
    assert browser.run("document.getElementById('previous').disabled")
    browser.click(*middle(browser, "#next"))
    assert label(browser) == "at most 1 feature"
    browser.click(*middle(browser, "#next"))
    browser.click(*middle(browser, "#previous"))
    assert label(browser) == "at most 1 feature"
    own = browser.run("JSON.parse(document.getElementById('data').textContent).own")
    if own != 1:
        browser.click(*middle(browser, "#own"))
    assert browser.run("document.getElementById('slider').value") == str(own)
    assert browser.run("document.getElementById('own').hidden")


@pytest.mark.parametrize("width", [360, 1200])
def test_a_click_in_a_figure_selects_a_budget_and_pointing_names_a_line(browser, pages, width):
    browser.open(pages / "classes.html", width)
    for chart in ("#lines", "#chart-0"):
        for which, wanted in ((0, "at most 0 features"), (3, "at most 3 features")):
            browser.run(f"document.querySelector('{chart}').scrollIntoView({{ block: 'center' }})")
            browser.settle()
            x, y = browser.run(
                f"""(() => {{ const all = [...document.querySelectorAll('{chart} text')]
                    .filter((t) => t.textContent === '{which}' && t.getAttribute('text-anchor') === 'middle');
                    const b = all[0].getBoundingClientRect(); return [b.x + b.width / 2, b.y - 30]; }})()"""
            )
            browser.click(x, y)
            assert label(browser) == wanted
    browser.run("document.querySelector('#lines').scrollIntoView({ block: 'center' })")
    browser.settle()
    dot = "#lines .series:last-child circle:last-child"
    browser.mouse("mouseMoved", *middle(browser, dot))
    named = browser.run("document.querySelector('#lines .tip').textContent")
    assert named in browser.run("JSON.parse(document.getElementById('data').textContent).features")
    assert browser.run("document.querySelectorAll('#lines .series.near').length") == 1
    assert named in browser.run("document.querySelector('#features tr.near').textContent")
    browser.mouse("mouseMoved", 2, 2)
    assert browser.run("document.querySelectorAll('.near').length") == 0


def test_residuals_follow_the_slider(browser, pages):
    browser.open(pages / "residuals.html")
    points = "[...document.querySelectorAll('#residuals circle')].map((c) => Number(c.getAttribute('cy')))"
    browser.run("document.getElementById('slider').focus()")
    browser.press("Home", KEYS["Home"])
    first = np.array(browser.run(points))
    browser.press("End", KEYS["End"])
    last = np.array(browser.run(points))
    assert first.size == last.size == 442
    assert np.std(last) < 0.9 * np.std(first)  # in pixels, on the same scale


@pytest.mark.parametrize("name", ["classes", "residuals", "hostile"])
def test_what_is_written_out_is_what_the_script_would_make(browser, pages, name):
    browser.open(pages / f"{name}.html", scripts=False)
    root = browser.ask("DOM.getDocument", depth=0)["root"]["nodeId"]

    def parts():
        found = {}
        for part in PARTS:
            node = browser.ask("DOM.querySelector", nodeId=root, selector=f"#{part}")["nodeId"]
            found[part] = browser.ask("DOM.getOuterHTML", nodeId=node)["outerHTML"]
        return found

    written = parts()
    picture = browser.ask("Page.captureScreenshot", format="png")["data"]
    assert browser.complaints() == []
    browser.open(pages / f"{name}.html")
    root = browser.ask("DOM.getDocument", depth=0)["root"]["nodeId"]
    assert parts() == written
    assert browser.ask("Page.captureScreenshot", format="png")["data"] != picture


def test_without_scripts_there_is_the_model_and_no_control(browser, pages):
    browser.open(pages / "classes.html", scripts=False)
    shown = "e => e.checkVisibility()"
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)  # the page's own have had their chance
    assert (
        browser.run(
            f"['steps', 'lines-section', 'charts-section'].map((i) => document.getElementById(i)).some({shown})"
        )
        is False
    )
    assert browser.run("document.querySelector('noscript').checkVisibility()")
    assert browser.run("document.querySelectorAll('#features tr').length") > 1


def test_names_are_text(browser, pages):
    browser.open(pages / "hostile.html", 360)
    names = browser.run("[...document.querySelectorAll('#features .name')].map((e) => e.textContent)")
    assert set(EVIL[:5]) <= set(names)
    assert browser.run("document.querySelectorAll('img, main b:not(.legend b), main i').length") == 0
    assert browser.run("document.querySelector('h1').textContent") == EVIL[0]
    assert browser.run("document.title") == EVIL[0]


def test_a_page_of_one_fit_has_no_slider(browser, pages):
    browser.open(pages / "single.html")
    assert browser.run("document.getElementById('steps').hidden")
    assert browser.run("document.getElementById('lines-section').hidden")
    assert browser.run("document.querySelectorAll('#residuals circle').length") == 442
    browser.press("ArrowRight", KEYS["ArrowRight"])
    assert browser.complaints() == []


def test_figures_are_drawn_anew_when_the_window_changes(browser, pages):
    browser.open(pages / "classes.html")
    wide = browser.run("document.querySelector('#lines svg').getAttribute('viewBox')")
    browser.ask("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
    browser.settle()
    assert browser.run("document.querySelector('#lines svg').getAttribute('viewBox')") != wide
    assert browser.run("document.scrollingElement.scrollWidth") <= 360


def test_it_prints(browser, pages, pictures):
    browser.open(pages / "classes.html", 800)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    browser.screenshot(pictures / "print.png")
    assert browser.run("getComputedStyle(document.getElementById('steps')).display") == "none"
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
