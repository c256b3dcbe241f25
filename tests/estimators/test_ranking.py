"""Ranking of candidates by scores of folds equals a plain implementation, with nonfinite scores and in any order."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from levelprox.estimators._ranking import Ranking, comparable
from tests.support.long_runs import LONG

BAD = (math.nan, math.inf, -math.inf)
MANY = 5000 if LONG else 200


def tables(count: int, seed: int = 0, bad: float = 0.15):
    """Scores of 1 to 6 candidates on 1 to 7 folds; some are not finite, and folds differ in how hard they are."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m, n = rng.integers(1, 7), rng.integers(1, 8)
        scores = rng.standard_normal((m, 1)) + 3 * rng.standard_normal(n) + 0.3 * rng.standard_normal((m, n))
        if rng.random() < 0.3:
            scores = np.round(scores)  # ties
        where = rng.random((m, n)) < bad * (rng.random() < 0.7)
        scores[where] = rng.choice(BAD, size=int(where.sum()))
        if rng.random() < 0.2:
            scores[:, rng.integers(n)] = math.nan
        yield scores, rng


def twin(scores: np.ndarray) -> list[float] | None:
    """What candidates are ranked by, one number at a time."""
    rows = scores.tolist()
    folds = [f for f in range(scores.shape[1]) if any(math.isfinite(row[f]) for row in rows)]
    if not folds:
        return None
    if all(math.isfinite(row[f]) for row in rows for f in folds):
        return [math.fsum(row[f] for f in folds) / len(folds) for row in rows]
    typical = {f: statistics.median(row[f] for row in rows if math.isfinite(row[f])) for f in folds}
    middle = []
    for row in rows:
        off = [row[f] - typical[f] if math.isfinite(row[f]) else -math.inf for f in folds]
        middle.append(statistics.median(off) + statistics.median(typical.values()))
    if any(math.isfinite(one) for one in middle):
        return middle
    counts = [sum(math.isfinite(one) for one in row) for row in rows]
    means = [
        math.fsum(one for one in row if math.isfinite(one)) / max(count, 1)
        for row, count in zip(rows, counts, strict=True)
    ]
    return [mean if count == max(counts) else -math.inf for mean, count in zip(means, counts, strict=True)]


def test_the_best_is_that_of_a_plain_twin():
    for scores, _ in tables(MANY):
        ranking, expected = Ranking.of(scores), twin(scores)
        if expected is None:
            assert ranking is None
            continue
        assert ranking is not None
        np.testing.assert_allclose(ranking.center, expected, rtol=1e-9, atol=1e-9)
        highest = max(expected)
        equal = [i for i, one in enumerate(expected) if one == highest or math.isclose(one, highest, rel_tol=1e-12)]
        assert ranking.best(False) == equal[0]


def test_finite_scores_are_preferred_and_one_error_is_of_finite_ones():
    for scores, _ in tables(MANY, seed=1):
        ranking = Ranking.of(scores)
        if ranking is None:
            continue
        for one_standard_error in (False, True):
            best = ranking.best(one_standard_error)
            assert np.any(np.isfinite(scores[best]))
            if np.any(np.all(ranking.finite, axis=1)):  # some candidate is finite in every fold
                assert np.isfinite(ranking.center[best])
        assert np.all(np.isfinite(ranking.error)) and ranking.best(True) <= ranking.best(False)
        columns = ranking.columns()
        assert columns["rank_test_score"][ranking.best(False)] == 1
        assert ("median_test_score" in columns) == ranking.by_median


def test_the_order_of_folds_does_not_matter():
    for scores, rng in tables(MANY, seed=2):
        order = rng.permutation(scores.shape[1])
        one, other = Ranking.of(scores), Ranking.of(scores[:, order])
        if one is None or other is None:
            assert one is other
            continue
        for one_standard_error in (False, True):
            assert one.best(one_standard_error) == other.best(one_standard_error)
        np.testing.assert_array_equal(one.columns()["rank_test_score"], other.columns()["rank_test_score"])


@pytest.mark.parametrize("value", BAD, ids=str)
def test_one_fold_that_is_not_finite_does_not_decide(value):
    """A candidate that is better than the others by more than folds vary stays the best, whichever fold it loses."""
    rng = np.random.default_rng(3)
    for _ in range(100):
        m, n = rng.integers(2, 6), rng.integers(3, 8)
        scores = 5 * rng.standard_normal(n) + 0.1 * rng.random((m, n))
        best = int(rng.integers(m))
        scores[best] += 1.0
        assert Ranking.of(scores).best(False) == best
        scores[best, rng.integers(n)] = value
        assert Ranking.of(scores).best(False) == best


def test_a_fold_without_any_score_is_left_out():
    scores = np.array([[1.0, math.nan, 3.0], [2.0, math.inf, 4.0]])
    ranking = Ranking.of(scores)
    assert ranking.left_out.tolist() == [1] and not ranking.by_median and ranking.best(False) == 1
    np.testing.assert_allclose(ranking.columns()["mean_test_score"], [2.0, 3.0])


def test_sums_in_another_order_are_equal():
    scores = np.array([[0.7, 0.8, 0.9], [0.9, 0.8, 0.7], [0.8, 0.7, 0.9]])
    assert len({row.sum() for row in scores}) > 1  # in float64 they are not
    ranking = Ranking.of(scores)
    assert ranking.best(False) == 0 and ranking.columns()["rank_test_score"].tolist() == [1, 1, 1]


def test_criteria_compare_fits_that_have_a_minimiser():
    rng = np.random.default_rng(4)
    for _ in range(300):
        m = rng.integers(1, 7)
        counts, diverging = np.sort(rng.integers(0, 4, m)), rng.random(m) < rng.random()
        usable = comparable(diverging, counts)
        assert np.any(usable) and np.all(usable[~diverging])
        extra = np.flatnonzero(usable & diverging)
        if np.any(~diverging & (counts > 0)) or not np.any(diverging):
            assert extra.size == 0
        else:
            assert extra.tolist() == [int(np.argmax(diverging))]
