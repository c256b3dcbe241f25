"""The KKT residual as a function of the multiplier, and the best multiplier, against a slow implementation."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import Function, LinearModel, Problem, _kernels, solve, theory
from levelprox.certificate.null_model import null_fit, relative_stationarity
from levelprox.constraints import MCP
from levelprox.problem import SubsetProblem
from tests.support import reference


def lines_of(support_offset, support_slope, zero_offset, zero_slope):
    """All lines whose maximum the kernels take."""
    up = list(zip(support_offset, support_slope, strict=True))
    slopes = np.broadcast_to(zero_slope, zero_offset.shape)
    at_zero = [(o, s) for o, s in zip(zero_offset, slopes, strict=True) if np.isfinite(o)]
    return [(float(o), float(s)) for o, s in [*up, *((-o, -s) for o, s in up), *at_zero]]


def random_lines(seed):
    rng = np.random.default_rng(seed)
    on_support, at_zero = int(rng.integers(0, 6)), int(rng.integers(1, 12))
    support_offset = rng.standard_normal(on_support)
    support_slope = rng.choice([-2.0, -0.5, 0.0, 0.3, 1.0], on_support)
    zero_offset = np.abs(rng.standard_normal(at_zero))
    zero_offset[rng.random(at_zero) < 0.3] = -np.inf  # on the support
    weights = [np.ones(1), np.ones(at_zero), rng.choice([0.0, 1.0, 1.0], at_zero), rng.uniform(0, 2, at_zero)][seed % 4]
    return support_offset, support_slope, zero_offset, -2.0 * weights


def random_rooms(lines, seed):
    """Rooms below the cap, the slack, the level and a curvature."""
    rng = np.random.default_rng([seed, 1])
    support_offset, _, zero_offset, zero_slope = lines
    rooms = [np.full(1, np.inf), np.full(1, 0.7), rng.uniform(0, 2, zero_offset.size)][seed % 3]
    rooms = rooms if zero_slope.size > 1 else rooms[:1]
    slack = [0.0, 1e-9, 1e-3, 0.1, 3.0][seed % 5]
    return rng.uniform(0, 2, support_offset.size), rooms, slack, max(slack, 1.0), [0.0, 0.1, 10.0][seed % 3]


def features_of(lines, support_room, zero_room):
    support_offset, support_slope, zero_offset, zero_slope = lines
    zeros = zip(
        zero_offset,
        -np.broadcast_to(zero_slope, zero_offset.shape),
        np.broadcast_to(zero_room, zero_offset.shape),
        strict=True,
    )
    return [*zip(np.abs(support_offset), np.abs(support_slope), support_room, strict=True), *zeros]


@pytest.mark.parametrize("seed", range(300))
def test_the_best_multiplier_and_its_residuals_are_those_of_the_twin(seed):
    lines = random_lines(seed)
    support_room, zero_room, slack, level, curvature = random_rooms(lines, seed)
    y, stationarity, complementarity = _kernels.best_multiplier(
        *lines, support_room, zero_room, slack, level, curvature
    )
    features = features_of(lines, support_room, zero_room)

    def heights(t):
        held = reference.complementarity(features, slack, level, curvature, t)
        return reference.largest_residual(lines_of(*lines), t), held

    assert (stationarity, complementarity) == pytest.approx(heights(y), rel=1e-12, abs=1e-15)
    last = reference.most_stationary(lines_of(*lines))
    assert y <= last * (1 + 1e-9) + 1e-12
    if slack == 0:
        assert stationarity <= heights(last)[0] * (1 + 1e-12) + 1e-15
    best = min(max(heights(t)) for t in np.linspace(0, last, 2001))
    assert max(stationarity, complementarity) <= best * (1 + 1e-9) + 1e-15
    for t in (0.0, y, 3.0):
        largest = _kernels.largest_residual(*lines, t)
        assert largest == pytest.approx(reference.largest_residual(lines_of(*lines), t), rel=1e-15)


def best(lines, slack=0.0, level=1.0, room=np.inf, curvature=0.0):
    """y, stationarity and complementarity where all features have the same room."""
    rooms = np.full(lines[0].size, room), np.full(1, room)
    return _kernels.best_multiplier(*lines, *rooms, slack, level, curvature)


def test_a_feature_of_small_weight_is_not_hidden_by_one_that_pulls_harder():
    """At y = 1 the harder pull is paid for, that of the unpenalized feature is not."""
    none, pulls = np.empty(0), np.array([5.0, 1.0])
    lines = none, none, pulls, np.array([-10.0, 0.0])
    assert _kernels.largest_residual(*lines, 1.0) == 1.0
    assert best(lines)[0] == pytest.approx(0.4)


def test_residuals_where_the_level_has_slack():
    """A feature at zero, pulled by 1 at price 1: following the pull costs 1/c, at most its room, at most the level."""
    lines = np.empty(0), np.empty(0), np.array([1.0]), np.array([-1.0])
    assert best(lines, slack=0.0) == (1.0, 0.0, 0.0)
    assert max(best(lines, slack=0.1, level=0.1)[1:]) == pytest.approx(0.5)  # all of the level is left
    assert max(best(lines, slack=1e-6, level=1.0)[1:]) == pytest.approx(1e-6, rel=1e-5)
    assert max(best(lines, slack=1e-6, level=1.0, room=1e-3)[1:]) == pytest.approx(1e-3, rel=1e-2)
    assert max(best(lines, slack=1e-6, level=1.0, room=1e-6)[1:]) == pytest.approx(0.5)
    assert max(best(lines, slack=1e-6, level=1.0, curvature=1e3)[1:]) == pytest.approx(1e-3, rel=1e-2)
    assert max(best(lines, slack=1.0, level=1e3, curvature=1.0)[1:]) == pytest.approx(0.5)


def test_lines_that_do_not_fit_together_are_refused():
    two, three = np.zeros(2), np.zeros(3)
    with pytest.raises(ValueError, match="other offsets than slopes"):
        _kernels.largest_residual(two, three, two, np.zeros(1), 0.0)
    rest = (0.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="one slope, or one each"):
        _kernels.best_multiplier(two, two, two, three, two, two, *rest)
    with pytest.raises(ValueError, match="other offsets than rooms"):
        _kernels.best_multiplier(two, two, two, two, three, two, *rest)
    with pytest.raises(ValueError, match="one room, or one each"):
        _kernels.best_multiplier(two, two, two, two, two, three, *rest)


@pytest.mark.parametrize("mean", [1e7, 1.7e9])
def test_stationarity_leaves_out_the_rounding_of_means_and_no_more(mean):
    rng = np.random.default_rng(0)
    apart = rng.standard_normal((40, 2))
    X = np.array([0.0, mean]) + apart * [1.0, 1e-2]
    y = apart @ [1.0, 2.0] + 0.1 * rng.standard_normal(40)
    model = LinearModel(X, y, fit_intercept=True).standardised()
    assert model is not None
    problem, features = SubsetProblem(model, 2), np.arange(3)
    null = null_fit(problem)
    columns = np.array([model.moved(unit) for unit in np.eye(3)]).T
    x = np.linalg.lstsq(columns, y, rcond=None)[0]
    assert relative_stationarity(problem, x, features, null) <= 1e-13
    assert relative_stationarity(problem, x * [1.0, 1.001, 1.0], features, null) >= 1e-4


# --- Degenerate levels: the common unit of weights, the nearest level, and the warning of a run


@pytest.mark.parametrize(
    ("weights", "unit"),
    [
        ([2.0, 2.0], 2.0),
        ([0.0, 3.0, 1.0], 1.0),
        ([2.0, 3.0], 1.0),
        ([0.1, 0.3, 0.7], 0.1),
        ([6.0, 10.0, 15.0], 1.0),
        ([1.0, math.sqrt(2)], None),
        ([0.0], None),
    ],
)
def test_the_common_unit_of_weights(weights, unit):
    assert theory.common_unit(weights) == (None if unit is None else pytest.approx(unit, rel=1e-13))


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.integers(0, 7), min_size=1, max_size=7),
    q=st.sampled_from([0.1, 1.0, 3.0]),
    share=st.floats(0, 40),
)
def test_the_nearest_degenerate_level_is_the_nearest_sum(weights, q, share):
    constraint = MCP(1.0, 2.0)  # cap 1
    problem = Problem(Function(lambda x: (0.0, 0 * x), len(weights)), constraint, q * share, q * np.array(weights))
    level, unit, check = theory.degenerate_level(problem)
    sums = {sum(part) for n in range(len(weights) + 1) for part in itertools.combinations(weights, n)}
    if not any(weights):
        assert (level, check) == (None, "no degenerate level")
        return
    assert check == "checked"
    assert unit == pytest.approx(q * math.gcd(*weights))
    assert abs(level - problem.level) == pytest.approx(min(abs(q * s - problem.level) for s in sums), abs=1e-12)
    assert min(abs(q * s - level) for s in sums) <= 1e-12


def test_degenerate_levels_of_large_problems_are_found_fast():
    weights = np.where(np.arange(200_000) % 2, 2.0, 3.0)
    problem = Problem(Function(lambda x: (0.0, 0 * x), weights.size), MCP(1.0, 2.0), 90_000.4, weights)
    assert theory.degenerate_distance(problem) == (pytest.approx(0.4), "checked")
    problem = Problem(Function(lambda x: (0.0, 0 * x), weights.size), MCP(1.0, 2.0), 150_000.4, weights)
    assert theory.degenerate_distance(problem)[0] == pytest.approx(0.4, abs=1e-9)
    unequal = Problem(problem.objective, MCP(1.0, 2.0), 5.0, weights + np.where(weights > 2, 0, 2e4))
    assert theory.degenerate_distance(unequal) == (None, "not checked: unequal weights")


@pytest.mark.parametrize(("caps", "warned"), [(2.0, False), (3.0, True), (7.0, False)])
def test_a_run_warns_of_a_level_that_weighted_coordinates_can_saturate(caps, warned):
    """With weights 1, 3, 3 a level of 2 caps is safe, one of 3 is not, and one of 7 holds nothing back."""
    target = np.array([0.3, -0.2, 0.1])
    fun = Function(lambda x: (0.5 * float((x - target) @ (x - target)), x - target), 3, smoothness=1.0)
    problem = Problem(fun, MCP(1.0, 2.0), caps, [1.0, 3.0, 3.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(problem, max_iter=0)
    assert any("multiplier may be unbounded" in str(w.message) for w in caught) == warned


# --- bounds and the first level ----------------------------------------------------------------------
