"""The experiment on local convergence shows the expected rates."""

from __future__ import annotations

import itertools

import pytest

from experiments import convergence
from experiments.convergence import CONSTRAINTS
from levelprox.certificate.null_model import null_fit


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_last_digits_come_at_a_quadratic_rate(name):
    problem = convergence.generated(CONSTRAINTS[name], n=500)
    null = null_fit(problem)
    kkt = next(
        path
        for tol in convergence.TOLERANCES
        if min(path := list(convergence.newton_steps(problem, convergence.rough(problem, tol), null))) < 1e-11
    )
    assert 3 <= len(kkt) <= 6 and 1e-6 < kkt[0] < 1e-3
    for before, after in itertools.pairwise(kkt):
        assert after < max(100 * before**2, 1e-13)
