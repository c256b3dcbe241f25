"""The experiment on Table 1: its problems are what they say, its figures are the paper's, its verdict can fall."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from experiments import rates
from experiments.cells import table
from experiments.measure import Path, distance_squared, measure, solution
from levelprox import nearby_kkt
from levelprox.certificate import Residual

CELLS = table()
EXACT = CELLS[:4]
STOCHASTIC = CELLS[4:]


class Row:
    """Stands in for a generator: every draw is row i of n."""

    def __init__(self, i, n):
        self.i, self.n = i, n

    def random(self):
        return (self.i + 0.5) / self.n


def points(count=20):
    return np.random.default_rng(1).standard_normal((count, 10))


def test_the_eight_entries_are_different_and_have_the_exponents_of_the_table():
    assert len({cell.name for cell in CELLS}) == 8
    assert [cell.exponent for cell in CELLS] == [1, 2, 1, 2, 2, 2, 2, 2]
    for cell in CELLS:
        objective = cell.problem.objective
        assert (objective.sampled, objective.smooth, objective.weak_convexity == 0) == (
            cell.stochastic,
            cell.smooth,
            cell.convex,
        )


@pytest.mark.parametrize("cell", STOCHASTIC, ids=lambda cell: cell.name)
def test_the_oracle_is_unbiased_and_its_noise_at_most_sigma(cell):
    n, oracle = 64, cell.problem.objective
    for x in points():
        _, gradient = cell.exact.objective.value_and_gradient(x)
        samples = np.array([oracle.sample(x, Row(i, n)) for i in range(n)])
        np.testing.assert_allclose(samples.mean(axis=0), gradient, atol=1e-13)
        assert np.mean(np.sum((samples - gradient) ** 2, axis=1)) <= oracle.noise**2


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_the_declared_constants_hold(cell):
    psi, declared = cell.exact.objective.value_and_gradient, cell.problem.objective
    for y, d in zip(points(200), points(400)[200:], strict=True):
        for size in (0.01, 1.0):
            apart = size * float(np.linalg.norm(d))
            above = psi(y + size * d)[0] - psi(y)[0] - size * float(psi(y)[1] @ d)
            assert above >= -declared.weak_convexity / 2 * apart**2 - 1e-13
            assert above <= declared.smoothness / 2 * apart**2 + declared.nonsmoothness * apart + 1e-13


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_the_solution_and_its_multiplier_obey_the_inequality_of_the_proof(cell):
    """dist(0, ∂ψ(x̄) + ȳ ∂g(x̄)) ≤ ‖γ(x̄ − x^{k−1}) + ȳ(∇h(x̄) − ∇h(x^{k−1}))‖ holds for the exact pair only."""
    path = Path(cell, 6, seed=next(seed for seed in range(100) if rates.draws_the_last(6, seed)))
    phi = cell.exact.constraint

    def gradient_of_h(x):
        return (phi.lam - phi.slope(np.abs(x))) * np.sign(x)

    for k in (4, 5, 6):
        x, center, level, gamma = path.step(k)
        x_bar, y_bar = solution(cell.exact, x, center, level, gamma)
        assert cell.exact.g(x_bar) <= level
        witness = gamma * (x_bar - center) + y_bar * (gradient_of_h(x_bar) - gradient_of_h(center))
        bound = float(witness @ witness)
        assert distance_squared(cell.exact, x_bar, y_bar) <= bound * (1 + 1e-6) + 1e-12
        if not cell.smooth:  # away from the kinks that x̄ sits at, the distance is another one
            assert distance_squared(cell.exact, x_bar * (1 + 1e-6), y_bar) > bound
