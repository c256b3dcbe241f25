"""A user's own method, run by the driver: limits, callback, Ctrl-C, resume and a certificate."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from levelprox import (
    Checkpoint,
    CheckpointError,
    Iterate,
    Limits,
    LinearModel,
    Method,
    Problem,
    Progress,
    Status,
    constraints,
    drive,
    project,
)


@dataclass(frozen=True)
class Point:
    """The state: x^k, feasible, and k."""

    best: Iterate
    k: int = 0


class ProjectedGradient(Method[Point]):
    """x ← P(x − t ∇ψ(x)), for a convex constraint."""

    kinds = (Point, Iterate)

    def init(self, problem, ctx):
        self.objective, self.radius = problem.objective, problem.level
        self.t = 1 / problem.objective.smoothness
        x = np.zeros(problem.dimension)
        return Point(Iterate(x, *self.objective.value_and_gradient(x)))

    def steps(self, state, ctx):
        while ctx.may_step(state.k):
            ctx.check()
            last = state.best
            x, _ = project(last.x - self.t * last.gradient, 0.0, self.radius)
            state = Point(Iterate(x, *self.objective.value_and_gradient(x)), state.k + 1)
            ctx.report(Progress(state.k, x))
            yield state
            if np.max(np.abs(x - last.x)) <= 1e-9:
                return Status.SOLVED
        return None


RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 20))
PROBLEM = Problem(LinearModel(X, X[:, 3] - 2 * X[:, 7] + 0.1 * RNG.standard_normal(60)), constraints.L1(), 2.0)
WHOLE = drive(ProjectedGradient(), PROBLEM)


def test_it_is_solved_and_certified():
    assert WHOLE.status is Status.SOLVED and WHOLE.kkt <= 1e-6
    assert WHOLE.g <= PROBLEM.level
    assert WHOLE.message.startswith("Solved: KKT ")


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_limits():
    seen = []
    few = drive(ProjectedGradient(), PROBLEM, limits=Limits(max_iter=3), callback=lambda k, x: seen.append(k))
    assert few.status is Status.MAX_ITER and seen == [1, 2, 3]
    assert "max_iter" in few.message and few.warnings == (few.message,)
    none = drive(ProjectedGradient(), PROBLEM, limits=Limits(seconds=0))
    assert none.status is Status.TIME_LIMIT and not np.any(none.x)
    slow = drive(ProjectedGradient(), PROBLEM, limits=Limits(seconds=0.05), callback=lambda k, x: time.sleep(0.02))
    assert slow.status is Status.TIME_LIMIT and "time_limit 0.05 s" in slow.message


def test_the_callback_ends_a_run():
    found = drive(ProjectedGradient(), PROBLEM, callback=lambda k, x: k == 4)
    assert found.status is Status.CALLBACK_STOP and found.psi < PROBLEM.objective.value_and_gradient(np.zeros(20))[0]
    with pytest.raises(TimeoutError, match="of the callback"):
        drive(ProjectedGradient(), PROBLEM, callback=_late)


def _late(k, x):
    raise TimeoutError("of the callback")


def test_ctrl_c_ends_a_run():
    def interrupt(k, x):
        if k == 5:
            raise KeyboardInterrupt

    found = drive(ProjectedGradient(), PROBLEM, callback=interrupt)
    assert found.status is Status.INTERRUPTED and PROBLEM.is_feasible(found.x)


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_a_run_is_resumed_with_the_same_bits(tmp_path):
    file = tmp_path / "state"
    for steps in (2, 9, math.inf):
        found = drive(
            ProjectedGradient(),
            PROBLEM,
            limits=Limits(max_iter=steps),
            checkpoint=Checkpoint(file, 0),
            resume=True,
        )
        assert (f"resume={str(file)!r} continues" in found.message) == (steps < math.inf)
    np.testing.assert_array_equal(found.x, WHOLE.x)
    with pytest.raises(CheckpointError, match=r"level was 2\.0, now it is 1\.0"):
        drive(ProjectedGradient(), replace(PROBLEM, level=1.0), checkpoint=file, resume=True)
