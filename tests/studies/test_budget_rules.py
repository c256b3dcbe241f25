"""The study of scores that choose a budget: its rules, on margins that are known."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.budget_rules import RULES, Forward, HeldOut, data


def fold(length: float, wrong: int = 1) -> HeldOut:
    """Ten held-out samples, of which some are on the wrong side, at margins of some length."""
    b = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    z = length * np.where(np.arange(10) < wrong, -b, b)
    return HeldOut(z, b, 0.0, length, 40)


@pytest.mark.parametrize("rule", RULES)
def test_only_the_held_out_loss_has_no_bound(rule):
    near, far = (np.mean(RULES[rule]([fold(length), fold(length)])) for length in (50.0, 1e6))
    if rule == "held-out loss":
        assert far > 1e4
    else:
        assert far == pytest.approx(near, rel=1e-6) and far < 2


def test_shrinking_is_never_worse_than_no_features():
    for wrong in range(11):
        assert np.mean(RULES["one shrinkage factor"]([fold(30.0, wrong)])) <= np.log(2) + 1e-12


def test_forward_selection_stops_where_it_separates():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 5))
    b = np.where(X[:, 3] > 0, 1.0, -1.0)
    path = Forward(X, b, 2)
    assert [features for features, _ in path.models] == [[], [3], [3]]
    assert np.all(b * path.margins(1, X) > 0) and np.ptp(path.margins(0, X)) == 0


def test_generated_data():
    for name in ("one_strong", "three", "noise"):
        X, b, n = data(name, 0)
        assert X.shape == (300, 300) and set(b) == {-1.0, 1.0} and n == 48
