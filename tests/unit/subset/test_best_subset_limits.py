"""At most k features under limits: starts, number of swaps, callbacks, time limits and messages."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

import levelprox
from levelprox import LinearModel, Status, SubsetCertificate, SubsetRecord, Swaps, best_subset, driver, subset_path
from levelprox.io.checkpoint import Checkpoint
from levelprox.subset import starts
from levelprox.subset.local_search import Monitor
from tests.support.clocks import each
from tests.support.subset_cases import LOSSES, bits, searched, solved, table, weighted

PHASES = ("forward", "continuation", "exchanges", "proof")
BY_MODELS = ("squared", "logistic", "poisson", "gamma")


def wide(seed: int = 0, n: int = 80, d: int = 40, loss: str = "squared") -> LinearModel:
    """Correlated columns of which many matter a little: swaps have much to do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
    b = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return LinearModel(X, b, loss, fit_intercept=True)


# --- where to begin


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("start", [[], [4, 6], [7, 5, 4], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_any_start_leads_to_a_set_that_no_swap_improves(loss, start):
    whole = weighted(table(loss, n=80, d=8, intercept=True))
    found = solved(whole, 3, start=start, prove=True)
    assert found.swaps.proved and found.support.size == 3
    better = min(
        whole.psi({*found.support.tolist(), j} - {i})
        for i in found.support.tolist()
        for j in {*range(8)} - {*found.support.tolist()}
    )
    assert better >= found.psi * (1 - 1e-9)


@pytest.mark.parametrize(("loss", "d", "k"), [("squared", 200, 12), ("huber", 40, 8)])
def test_the_best_set_is_a_fixed_point_and_costs_less(loss, d, k):
    objective = wide(d=d, loss=loss)
    cold = best_subset(objective, k)
    warm = best_subset(objective, k, start=cold.support)
    assert np.array_equal(warm.support, cold.support) and warm.psi == pytest.approx(cold.psi, rel=1e-12)
    assert warm.swaps == cold.swaps and warm.history[-1].step == 0
    assert warm.n_grad < cold.n_grad / 2
    most = cold.n_refits / 2 if loss == "squared" else cold.n_refits  # most refits of Huber's loss examine swaps
    assert warm.n_refits < most


def test_starts_by_mask_and_by_index_are_the_same_and_kept_features_do_not_count():
    objective = wide()
    expected = bits(best_subset(objective, 4, start=[30, 3, 17, 9], keep=[5]))
    for start in (np.isin(np.arange(40), [3, 9, 17, 30]), np.array([3, 9, 17, 30, 3, 5, 40], np.uint8)):
        assert bits(best_subset(objective, 4, start=start, keep=[5])) == expected


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 9, 40])
def test_too_many_are_thinned_out_and_too_few_are_filled_up(size):
    """Without swaps what is left of the start shows."""
    objective, start = wide(), np.random.default_rng(size).permutation(40)[:size]
    found = searched(objective, 4, start=start, max_iter=0)
    assert found.support.size == 4
    assert set(found.support) >= set(start) or set(found.support) <= set(start)


# --- how many swaps


def test_swaps_are_counted_and_limited():
    objective, start = wide(), [0, 1, 2, 3, 4, 5]
    complete = searched(objective, 6, start=start)
    taken = complete.history[-1].step
    assert complete.status is Status.SOLVED and taken > 3
    values = []
    for most in range(taken + 1):
        found = searched(objective, 6, start=start, max_iter=most)
        values.append(found.psi)
        assert found.history[-1].step <= most
        if most < taken:
            assert found.status is Status.MAX_ITER and not found.success and found.swaps.examined == 0
            assert (
                f"Stopped after {most} swap{'' if most == 1 else 's'}, max_iter" in found.message
                and "Raise max_iter" in found.message
            )
    assert values == sorted(values, reverse=True) and len(set(values)) == taken + 1
    assert values[-1] == complete.psi
    assert bits(best_subset(objective, 6, start=start, max_iter=10**6)) == bits(complete)


@pytest.mark.parametrize("k", [8, 12])
def test_swaps_by_the_gram_matrix_are_counted_and_limited(k):
    objective = wide(d=200)
    complete = searched(objective, k)
    taken, values = complete.history[-1].step, []
    assert complete.status is Status.SOLVED and taken > 3
    for most in range(taken + 1):
        found = searched(objective, k, max_iter=most)
        values.append(found.psi)
        assert found.support.size == k and found.history[-1].step <= most
        if most < taken:
            assert found.status is Status.MAX_ITER and found.swaps.examined == 0
            assert f"Stopped after {most} swap" in found.message
    assert values == sorted(values, reverse=True) and values[0] > values[-1] == complete.psi
    assert bits(best_subset(objective, k, max_iter=taken)) == bits(complete)


@pytest.mark.parametrize("kept", [starts.KEPT_ENTRIES, 0])  # with a copy of X, and without one
def test_ctrl_c_in_a_search_by_the_gram_matrix_keeps_the_best_set(kept, monkeypatch, tmp_path):
    monkeypatch.setattr(starts, "KEPT_ENTRIES", kept)
    objective, count = wide(), Monitor.take_swap
    whole = best_subset(objective, 8)
    monkeypatch.setattr(Monitor, "take_swap", raises)
    found = searched(objective, 8, checkpoint=Checkpoint(tmp_path / "state", 0))
    assert found.status is Status.INTERRUPTED and 0 < found.support.size <= 8 and "resume=" in found.message
    assert whole.psi < found.psi < objective.value_and_gradient(np.zeros(objective.dimension))[0]
    monkeypatch.setattr(Monitor, "take_swap", count)
    rest = best_subset(objective, 8, checkpoint=tmp_path / "state", resume=True)
    assert bits(rest) == bits(whole)


def raises(self):
    raise KeyboardInterrupt


# --- progress


@pytest.mark.parametrize("d", [10, 25])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_callback_gets_every_improvement_and_changes_nothing(loss, d):
    objective = table(loss, n=80, d=d, intercept=True).objective
    records: list[SubsetRecord] = []
    found = best_subset(objective, 3, callback=records.append)
    assert bits(found) == bits(best_subset(objective, 3))
    by_models = (d == 10 and loss in BY_MODELS) or loss == "squared"  # there is no continuation
    assert set(found.history) <= set(records)
    assert {r.phase for r in records} == set(PHASES) - ({"continuation"} if by_models else set())
    values = [record.psi for record in found.history]
    assert values == sorted(values, reverse=True) and len(set(values)) == len(values)
    assert values[-1] == pytest.approx(found.psi, rel=1e-12) and found.history[0].n_features == 0
    assert found.history[-1].n_features == 3
    for earlier, later in itertools.pairwise(records):
        assert earlier.seconds <= later.seconds and earlier.n_refits <= later.n_refits
        assert earlier.step <= later.step and earlier.psi >= later.psi
    assert all(record.done is None or 0 <= record.done <= 1 for record in records)
    assert any(record.done for record in records) or loss == "squared"
    assert records[-1].n_refits <= found.n_refits


def test_a_callback_is_called_while_nothing_improves(monkeypatch):
    """However little happens: with no wait between calls there are many more than improvements."""
    monkeypatch.setattr(driver, "PROGRESS_INTERVAL_SECONDS", 0.0)
    records: list[SubsetRecord] = []
    found = best_subset(table("logistic", n=80, d=10).objective, 3, callback=records.append)
    assert len(records) > 5 * len(found.history) + 4
    proof = [record.done for record in records if record.phase == "proof" and record.done is not None]
    assert proof == sorted(proof)


def test_the_callback_stops_the_search_anywhere():
    objective = table("logistic", n=60, d=12).objective
    counts = [0]

    def count(_):
        counts[0] += 1

    complete = best_subset(objective, 3, callback=count)
    values = []
    for last in range(1, counts[0]):
        calls = [0]

        def stop(_, calls=calls, last=last):
            calls[0] += 1
            return calls[0] >= last

        found = searched(objective, 3, callback=stop)
        assert found.status is Status.CALLBACK_STOP and found.success and calls[0] == last
        assert "Stopped by the callback" in found.message
        values.append(found.psi)
    assert values == sorted(values, reverse=True) and values[-1] == complete.psi < values[0]


@pytest.mark.parametrize("kind", [ValueError, TimeoutError])
def test_an_exception_of_the_callback_is_raised(kind):
    """A TimeoutError of the callback is not the search's own."""
    for last in (0, 3):
        calls = [0]

        def fail(_, calls=calls, last=last):
            calls[0] += 1
            if calls[0] > last:
                raise kind("mine")

        with pytest.raises(kind, match="mine"):
            best_subset(table("logistic").objective, 3, callback=fail)


def test_ctrl_c_in_the_callback_is_ctrl_c():
    def interrupt(record):
        if record.n_features:
            raise KeyboardInterrupt

    found = searched(table("logistic", n=60, d=20).objective, 3, callback=interrupt)
    assert found.status is Status.INTERRUPTED and found.support.size == 1
    found = searched(table("logistic").objective, 3, callback=interrupt)  # its first set has three
    assert found.status is Status.INTERRUPTED and found.support.size == 3


def test_history_is_bounded(monkeypatch):
    one = Monitor()
    for i in range(1500):
        one.improved(-i, 1)
    assert len(one.history) == 1000 and one.history[-1].psi == -1499


# --- time


@pytest.mark.usefixtures("processor_clock")
@pytest.mark.parametrize("limit", [0.1, 0.4])
def test_the_time_limit_holds_and_the_callback_is_called_throughout(limit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 800))
    objective = LinearModel(X, np.sign(X[:, :60] @ rng.standard_normal(60) + 9 * rng.logistic(size=4000)), "logistic")
    heard = [time.monotonic()]
    callback = each(0.005, lambda _: heard.append(time.monotonic()))
    found = searched(objective, 40, time_limit=limit, callback=callback)
    assert found.status is Status.TIME_LIMIT and found.wall_s <= limit + 0.5
    assert found.psi < np.log(2) and 0 < found.support.size <= 40
    assert found.psi == pytest.approx(found.history[-1].psi, rel=1e-12)
    assert np.max(np.diff(heard)) < 0.5 and len(heard) > 3


def test_paths_take_the_same_limits():
    objective = wide()
    with pytest.warns(Warning, match="max_iter"):
        found = subset_path(objective, [2, 6], start=[0, 1, 2, 3, 4, 5], max_iter=1)
    assert Status.MAX_ITER in found.statuses


# --- what is shown


def test_exchanges_are_the_deprecated_name_of_swaps():
    found = solved(table("squared"), 3)
    for one in (found, found.certificate):
        with pytest.warns(DeprecationWarning, match="its name is swaps"):
            assert one.exchanges == one.swaps
    with pytest.warns(DeprecationWarning, match="it is levelprox.Swaps"):
        assert levelprox.Exchanges is Swaps


@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_certificates_have_every_figure(loss):
    found = solved(table(loss, intercept=True), 3)
    certificate = found.certificate
    assert isinstance(certificate, SubsetCertificate) and certificate.n_nonzero == 3 == certificate.k
    for name in ("psi", "stationarity", "swaps", "multiplier", "addition"):
        assert getattr(certificate, name) == getattr(found, name)
    again = json.loads(json.dumps(certificate.as_dict()))
    assert again["exchanges"] == {**asdict(found.swaps), "proved": True}
    assert again["additions"] == {**asdict(found.additions), "proved": True}
    expected = {**asdict(certificate), "exchanges": None, "additions": None}
    del expected["swaps"]
    assert {**again, "exchanges": None, "additions": None} == expected
    text = str(certificate)
    assert "3 ≤ 3" in text and f"{found.psi:.10g}" in text and str(found.swaps) in text
    assert f"feature {found.addition}" in text
    assert len({line.index("  ") for line in text.splitlines()}) >= 1 and len(text.splitlines()) == 5
    nothing = replace(certificate, addition=None, multiplier=0.0, swaps=Swaps(1, 2))
    assert "nothing" in str(nothing) and not nothing.as_dict()["exchanges"]["proved"]


def test_fits_that_miss_their_tolerance_are_said_to(monkeypatch):
    objective = table("logistic", intercept=True).objective
    for size, status in ((1e-7, Status.SOLVED), (1e-5, Status.SOLVED_INACCURATE)):
        monkeypatch.setattr("levelprox.subset.smooth_search.relative_stationarity", lambda *_, size=size: size)
        found = searched(objective, 2)
        assert found.status is status
    assert "stationarity 1.0e-05 > tol 1.0e-08. Raise tol." in found.message
