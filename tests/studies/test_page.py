"""The page of the paper's experiments: complete, escaped, and readable on a desktop and a phone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from experiments.datasets import Places
from experiments.reproduce.page import write_page
from experiments.reproduce.study import Claim, Outcome, Report, Scope, Table
from experiments.results import panels
from tests.support import small_studies
from tests.support.browser import Browser, find_browser


def a_report(**more):
    figure, axes = panels(1, 4)
    for axis in axes.flat:
        axis.plot([3, 2, 1])
        axis.set_xlabel("nonzeros")
    claims = [
        Claim("LCPP ends within 1e-4 of the best objective before DCCP's second iteration", "2.3e-6 <mnist>", True),
        Claim("test error 2.52 %", "2.61 %", False, "because of <script>alert(1)</script> & more"),
        Claim("faster than MOSEK", "no licence was found", None, "DCCP ran on Clarabel"),
    ]
    header = ("data set", "LCPP", "GIST", "Lasso", "skglm MCP", "abess", "nonzeros", "seconds")
    table = Table("Test error in %", header, [("real-sim (stand-in: news20)", *["12.34 ± 0.05"] * 7)] * 6)
    outcome = Outcome(
        "objective against seconds, four data sets", "Figure 2: LCPP is below DCCP", [table],
        [("x.png", figure, 'Objective "and" seconds')], claims, ["The stand-ins are <other> data."],
    )  # fmt: skip
    study = small_studies.studies()["small"]
    trouble = {"fig mosek": "no licence", "fig scs": "no licence"}
    return Report(study, outcome, trouble, {"fig x": "it <died>"}, 4000.0, more["csv"], {"fig dccp": "ended"}, 2)


def test_the_page_says_everything_and_escapes_it(tmp_path):
    path = write_page(tmp_path / "index.html", [a_report(csv=tmp_path / "small.csv")], Scope(Places(), quick=True))
    page = path.read_text()
    for said in (
        "--quick", "mnist (generated substitute)", "Figure 2: LCPP is below DCCP", "2.3e-6 &lt;mnist&gt;", ">missed<",
        ">holds<", ">open<", "&lt;script&gt;alert(1)", "fig mosek, fig scs: no licence", "it &lt;died&gt;", "67 min",
        'href="small.csv"', 'alt="Objective &quot;and&quot; seconds"', "&lt;other&gt;", "fig dccp: ended",
        "2 tasks have not been run yet", "levelprox ", "cvxpy ", "data:image/svg+xml;base64,",
    ):  # fmt: skip
        assert said in page, said
    assert "<script" not in page and not re.search(r"""(src|href)=["']?(https?:|//|file:|/)""", page)
    again = write_page(tmp_path / "again.html", [a_report(csv=tmp_path / "small.csv")], Scope(Places(), quick=True))
    assert again.read_bytes() == path.read_bytes()


def test_the_page_of_nothing(tmp_path):
    scope = Scope(Places(stand_ins=tmp_path / "no"), sets=("mnist",))
    page = write_page(tmp_path / "index.html", [], scope).read_text()
    assert "Full settings" in page and "there is no such folder" in page and "gisette" not in page


@pytest.mark.process
def test_the_page_in_a_browser(tmp_path):
    """On a desk and on a phone nothing but tables and figures is wider than the screen, and no resource is blocked."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium")
    path = write_page(tmp_path / "index.html", [a_report(csv=tmp_path / "small.csv")], Scope(Places()))
    browser = Browser(program, tmp_path / "profile")
    folder = os.environ.get("LEVELPROX_SCREENSHOTS")
    try:
        for width, dark in ((1200, False), (360, True)):
            browser.open(path, width, dark=dark)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run("document.images[0].naturalWidth") > 0
            assert [one for one in browser.complaints() if not one.startswith("data:")] == []
            if folder:
                browser.screenshot(Path(folder, f"reproduce-{width}.png"))
    finally:
        browser.close()
