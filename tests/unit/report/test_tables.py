"""The certificate in notebooks: correct, escaped, and off where HTML is off."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.report import certificate_html


class Words(HTMLParser):
    """The text of a page, without its style; every tag must be closed in its turn."""

    def __init__(self, page):
        super().__init__()
        self.open, self.text = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    def __str__(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


def test_a_fit_of_k_features_says_what_is_shown(cancer):
    model = SparseClassifier(n_features=3).fit(*cancer)
    certificate, words = model.certificate_, str(Words(certificate_html(model)))
    assert "solved" in words
    assert "3 of at most 3 features" in words
    assert f"{certificate.psi:.6g}" in words
    assert str(certificate.swaps) in words
    addition = f"'x{certificate.addition}', would lower the loss by {certificate.multiplier:.2g}"
    assert f"one more feature, {addition}" in words
    for j in model.selected_features_:
        assert f"x{j} {model.coef_[0, j]:.4g}" in words


def test_a_fit_under_a_level_says_what_is_shown(cancer):
    model = SparseClassifier(level=3.5).fit(*cancer)
    certificate, words = model.certificate_, str(Words(certificate_html(model)))
    assert f"g = {certificate.g:.6g} ≤ 3.5, MCP" in words
    assert f"KKT residual {certificate.kkt:.1e}, within tol = 1.0e-06" in words
    assert f"the loss falls by about {certificate.multiplier:.2g} for each unit" in words


def test_a_level_that_does_not_hold_back_has_no_price():
    X, y = load_diabetes(return_X_y=True)
    words = str(Words(certificate_html(SparseRegressor(level=1e6, constraint="l1").fit(X, y))))
    assert "none: the level is not binding" in words


def test_unpenalized_features_are_shown_apart():
    X, y = load_diabetes(return_X_y=True)
    weight = np.ones(10)
    weight[:2] = 0
    words = str(Words(certificate_html(SparseRegressor(n_features=1, feature_weight=weight).fit(X, y))))
    assert "1 of at most 1 feature, and 2 that do not count" in words
    words = str(Words(certificate_html(SparseRegressor(n_features=1, keep=[0]).fit(X, y))))
    assert "1 of at most 1 feature, and 1 that does not count" in words


def test_a_ridge_is_shown_wherever_the_loss_is(cancer):
    """The loss is that of the data and the penalty together."""
    X, y = cancer
    model = SparseClassifier(n_features=2, ridge=0.05).fit(X, y)
    told = "ridge 0.05; the loss includes its penalty"
    assert told in str(Words(certificate_html(model)))
    assert told in " ".join(str(model.summary(X, y)).split())
    assert "ridge" not in str(Words(certificate_html(SparseClassifier(n_features=2, ridge=0).fit(X, y))))


def test_all_features_and_none():
    X, y = load_diabetes(return_X_y=True)
    assert "no single further feature" in str(Words(certificate_html(SparseRegressor(n_features=10).fit(X, y))))
    assert "the intercept alone" in str(Words(certificate_html(SparseRegressor(n_features=0).fit(X, y))))


def test_a_fit_that_ended_short_says_so(cancer):
    with pytest.warns(ConvergenceWarning):
        model = SparseClassifier(level=5.5, max_iter=0).fit(*cancer)
    page = certificate_html(model)
    assert 'class="status short">max iter<' in page
    assert "above tol" in page
    assert "Raise max_iter" in str(Words(page))


def test_names_are_escaped():
    pandas = pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True)
    names = ["<script>alert(1)</script>", *(f"<b>&\"'{j}" for j in range(9))]
    frame = pandas.DataFrame(X, columns=names)
    for model in (SparseRegressor(n_features=10), SparseRegressor(n_features=2)):
        model.fit(frame, y)
        page = certificate_html(model)
        assert "<script" not in page and "<b>&" not in page
        assert all(name in str(Words(page)) for name in model.get_feature_names_out())


def test_classes_are_escaped_and_each_has_a_column():
    X, y = load_wine(return_X_y=True)
    model = SparseClassifier(level=2.5, constraint="l1").fit(X, np.array(["<i>", "one", "two"])[y])
    page = certificate_html(model)
    assert "&lt;i&gt;" in page and '<th class="number"><i>' not in page
    j = int(np.argmax(np.linalg.norm(model.coef_ * model.scale_, axis=0)))
    assert f"x{j} {model.coef_[0, j]:.4g} {model.coef_[1, j]:.4g} {model.coef_[2, j]:.4g}" in str(Words(page))


def test_long_lists_are_cut():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 50))
    model = SparseRegressor(n_features=40).fit(X, X.sum(axis=1))
    page = certificate_html(model)
    assert page.count("<tr>") == 5 + 1 + 30
    assert "and 10 more" in page


@pytest.mark.parametrize("kind", [SparseClassifierCV, SparseRegressorCV])
def test_estimators_that_choose_show_the_last_fit(kind, cancer):
    model = kind(n_features=[1, 2], cv=3).fit(*cancer)
    assert certificate_html(model) in model._repr_html_()


def test_the_card_comes_once_there_is_a_fit(cancer):
    model = SparseClassifier(n_features=1)
    assert "levelprox-card" not in model._repr_html_()
    with pytest.raises(NotFittedError):
        certificate_html(model)
    model.fit(*cancer)
    assert model._repr_html_().count('<div class="levelprox-card">') == 1
    assert model._repr_mimebundle_()["text/html"].count('<div class="levelprox-card">') == 1
    assert "levelprox-card" not in clone(model)._repr_html_()


def test_text_is_as_it_was_and_html_can_be_turned_off(cancer):
    model = SparseClassifier(n_features=1).fit(*cancer)
    assert model._repr_mimebundle_()["text/plain"] == repr(model) == "SparseClassifier(n_features=1)"
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}


def test_pipelines_show_their_diagram(cancer):
    assert "SparseClassifier" in make_pipeline(SparseClassifier(n_features=1)).fit(*cancer)._repr_html_()
