"""Runs inside runs, and work before the first step: limits, callbacks, Ctrl-C and checkpoints hold there, too."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from levelprox import (
    CheckpointError,
    LinearModel,
    NumericalError,
    Problem,
    Status,
    best_subset,
    constraints,
    linear_model,
    open_chunked,
    solve,
    subset_path,
)
from levelprox.subset.smooth_search import SmoothSearch


def data(n: int = 120, d: int = 15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X[:, 3] - 2 * X[:, 7] + 0.3 * rng.standard_normal(n)


class SlowToPrepare(LinearModel):
    """A model whose preparation takes longer than the limit and its grace period."""

    prepared = 0

    def standardised(self):
        type(self).prepared += 1
        time.sleep(0.5)
        return super().standardised()


@pytest.mark.filterwarnings("ignore::levelprox.ConvergenceWarning")
def test_a_path_over_k_without_time_has_its_first_set() -> None:
    X, y = data()
    path = subset_path(SlowToPrepare(X, np.sign(y), "logistic"), [1, 2], time_limit=0.02)
    assert path.statuses[0] is Status.TIME_LIMIT


def test_a_checkpoint_that_cannot_be_used_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    X, y = data()
    file = tmp_path / "state"
    best_subset(LinearModel(X, y), 1, checkpoint=file)
    SlowToPrepare.prepared = 0
    with pytest.raises(CheckpointError, match="the checkpoint already exists"):
        best_subset(SlowToPrepare(X, y), 1, checkpoint=file)
    assert SlowToPrepare.prepared == 0


def test_a_callback_ends_the_search_on_the_model_of_remote_data(tmp_path: Path, monkeypatch) -> None:
    """The search on a second-order model is a run inside the run: its callback is that of the whole."""
    X, y = data()
    np.save(tmp_path / "X.npy", X)
    model, inner, calls = linear_model(open_chunked(tmp_path / "X.npy"), y), SmoothSearch.sets, []

    def slow(self):
        for _ in range(100):
            time.sleep(0.11)
            if self.monitor.seconds_left() <= 0:
                break
        yield from inner(self)

    monkeypatch.setattr(SmoothSearch, "sets", slow)
    began = time.monotonic()
    found = best_subset(model, 2, callback=lambda record: calls.append(record) or len(calls) >= 4)
    assert found.status is Status.CALLBACK_STOP and len(calls) == 4
    assert time.monotonic() - began < 10  # of 11 seconds that the search would sleep


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_failure_before_the_first_step_keeps_the_start(failure) -> None:
    X, y = data()

    class Failing(LinearModel):
        reads = 0

        @property
        def curvature(self):
            type(self).reads += 1
            if self.reads >= 2:  # the null model has it once
                raise failure("here")
            return 1.0

    problem = Problem(Failing(X, y), constraints.MCP.from_threshold(0.5), 1.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if failure is KeyboardInterrupt:
            assert solve(problem).status is Status.INTERRUPTED
        else:
            with pytest.raises(NumericalError, match="here") as caught:
                solve(problem)
            assert caught.value.result is not None and not np.any(caught.value.result.x)


@pytest.mark.parametrize("failure", [StopIteration, ValueError, TimeoutError])
def test_what_a_callback_raises_is_raised(failure) -> None:
    X, y = data()

    def callback(*_):
        raise failure("mine")

    for run in (
        lambda: solve(Problem(LinearModel(X, y), constraints.MCP.from_threshold(0.5), 1.3), callback=callback),
        lambda: best_subset(LinearModel(X, y), 2, callback=callback),
        lambda: best_subset(LinearModel(X, y, "absolute"), 2, callback=callback),
        lambda: subset_path(LinearModel(X, y), [1, 2], callback=callback),
    ):
        with pytest.raises(failure, match="mine"):
            run()
