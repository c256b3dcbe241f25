"""Minibatch steps equal those of a slow implementation: full projections, exactly feasible, for any screening."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from levelprox import LinearModel, project
from levelprox.losses import loss_by_name
from levelprox.methods.subsolvers import Subproblem, Surrogate
from levelprox.methods.subsolvers._minibatch import Progress, draw, take_steps
from tests.support import reference
from tests.support.registries import BOUNDED_LOSSES, DESIGNS, targets_of

STORAGES = [
    "dense C",
    "dense Fortran",
    "dense C float32",
    "dense Fortran float32",
    "CSR",
    "CSC",
    "CSR float32",
    "CSC float32 int64",
    "CSR unsorted",
    "CSR explicit zeros",
]


def sparse_data(rng, n, d, density=0.03):
    """Few entries a row, of numbers that float32 holds, with an empty row and an empty column."""
    X = np.where(rng.random((n, d)) < density, rng.standard_normal((n, d)), 0.0).astype(np.float32).astype(float)
    X[0], X[:, 0] = 0, 0
    return X


@dataclass
class Case:
    """A subproblem with everything in it, and minibatch steps on it by the kernel and by a slow implementation."""

    seed: int
    storage: str = "CSR"
    loss: object = "logistic"
    weighted: bool = True
    linear: bool = True
    signs: str = "some"
    level: float = 0.3
    snapshot: bool = False
    steps: int = 25
    batch: int = 3

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        n, d = 30, 400  # so many that most steps list few of them
        self.X = sparse_data(rng, n, d)
        b = targets_of(loss_by_name(self.loss), np.where(rng.random(n) < 0.5, -1.0, 1.0))
        offset, weight = 0.3 * rng.standard_normal(n), rng.integers(0, 3, n).astype(float)
        self.model = LinearModel(DESIGNS[self.storage](self.X), b, self.loss, sample_weight=weight, offset=offset)
        center = np.where(rng.random(d) < 0.04, rng.standard_normal(d), 0.0)
        self.mask = rng.random(d) < {"none": 0.0, "some": 0.4, "all": 1.1}[self.signs]
        center[self.mask] = np.abs(center[self.mask])
        weights = np.where(rng.random(d) < 0.1, 0.0, 10.0 ** rng.uniform(-1, 1, d)) if self.weighted else None
        u = np.where(rng.random(d) < 0.3, rng.uniform(-1, 1, d), 0.0) if self.linear else None
        spent = np.abs(center) + (0 if u is None else u * center)
        tau = self.level * float(np.sum(spent if weights is None else weights * spent))
        mask = None if self.signs != "some" else self.mask.view(np.uint8)
        surrogate = Surrogate(weights, u, tau, 1.0, 1.0)
        self.problem = Subproblem(self.model, surrogate, center, 0.3, (mask, self.signs == "all"))
        self.samples = draw(self.model, self.steps * self.batch - 1, rng)  # the last batch is shorter
        self.lengths = rng.uniform(0.1, 2.0, self.steps)
        self.start = rng.permutation(center)  # another support than the center's, and not feasible
        self.start[self.mask] = np.abs(self.start[self.mask])

    def of_snapshot(self):
        center = self.problem.center
        return (self.model.slopes(center), self.model.value_and_gradient(center)[1]) if self.snapshot else None

    def project(self, v):
        surrogate = self.problem.surrogate
        u = 0.0 if surrogate.u is None else surrogate.u
        return project(v, u, surrogate.tau, weights=surrogate.weights, nonnegative=self.mask)[0]

    def by_kernel(self, steps, guess=0.0):
        """The point after so many steps, begun with a guess of the multiplier per unit step."""
        progress = Progress(self.start.copy(), np.array([guess]))
        samples, lengths = self.samples[: steps * self.batch], self.lengths[:steps]
        stop = take_steps(self.problem, self.model, progress, samples, self.batch, lengths, 1e300, self.of_snapshot())
        assert stop == "steps" and progress.steps == steps and progress.rows == samples.size
        self.listed = progress.counts[3] / progress.projections
        return progress.x

    def by_twin(self):
        """Every point."""

        def slope(i, z):
            return float(self.model.loss.derivative([z + self.model.offset[i]], [self.model.target[i]])[0])

        return reference.stochastic_steps(
            self.X,
            slope,
            self.start,
            self.problem.center,
            self.problem.gamma,
            self.project,
            self.samples,
            self.batch,
            self.lengths,
            self.of_snapshot(),
        )


def check_against_twin(case):
    points = case.by_twin()
    for k in (1, 2, 3, case.steps):
        np.testing.assert_allclose(case.by_kernel(k), points[k - 1], rtol=0, atol=1e-12)
    return points[-1]


METHODS = pytest.mark.parametrize("snapshot", [False, True], ids=["sgd", "svrg"])


@METHODS
@pytest.mark.parametrize("storage", STORAGES)
def test_the_kernel_takes_the_steps_of_its_twin(storage, snapshot):
    case = Case(1, storage, level=0.01, snapshot=snapshot)
    last = check_against_twin(case)
    assert np.any(last != 0)
    assert case.listed < 100 < last.size  # screened steps were taken


@METHODS
@pytest.mark.parametrize("batch", [2, 12, 30])
def test_steps_equal_the_twin_for_every_size_of_batch(batch, snapshot):
    """From a fourth of d entries a batch on, touched entries are searched for instead of marked."""
    check_against_twin(Case(6, level=0.01, snapshot=snapshot, batch=batch))


@METHODS
@pytest.mark.parametrize("loss", BOUNDED_LOSSES, ids=str)
def test_steps_equal_the_twin_for_every_loss(loss, snapshot):
    check_against_twin(Case(3, loss=loss, snapshot=snapshot))


@METHODS
@pytest.mark.parametrize("signs", ["none", "some", "all"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("linear", [False, True], ids=["u = 0", "u"])
@pytest.mark.parametrize("level", [0.0, 0.02, 0.2, 1e3])
def test_steps_equal_the_twin_for_every_kind_of_set(level, linear, weighted, signs, snapshot):
    check_against_twin(Case(2, weighted=weighted, linear=linear, signs=signs, level=level, snapshot=snapshot))


@METHODS
@pytest.mark.parametrize("level", [0.0, 0.05, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_every_step_is_feasible_in_exact_arithmetic(seed, level, snapshot):
    case = Case(seed, level=level, snapshot=snapshot)
    surrogate = case.problem.surrogate
    for k in range(1, case.steps + 1):
        x = case.by_kernel(k)
        assert reference.exact_level(x, surrogate.u, surrogate.weights) <= Fraction(surrogate.tau)
        assert np.all(x[case.mask] >= 0)


@METHODS
@pytest.mark.parametrize("guess", [1e-3, 1.0, 1e6, np.inf, np.nan])
def test_a_wrong_guess_of_the_multiplier_is_found_out(guess, snapshot):
    """Too high, it screens away coordinates that must not be at zero; the steps are the same nevertheless."""
    case = Case(4, level=0.01, snapshot=snapshot)
    for k in (1, case.steps):
        np.testing.assert_allclose(case.by_kernel(k, guess), case.by_kernel(k), rtol=0, atol=1e-13)


def test_screening_without_its_check_would_be_wrong():
    """The planted fault: leave coordinates out by too high a guess, and never look again."""
    rng = np.random.default_rng(5)
    v, u, weights = rng.standard_normal(50), np.zeros(50), rng.uniform(0.5, 2, 50)
    whole, y = project(v, u, 3.0, weights=weights)
    for share, checked, right in ((0.9, False, True), (1.5, False, False), (1.5, True, True), (1e6, True, True)):
        x = reference.screened_projection(v, weights, 3.0, share * y, project, checked)
        assert np.allclose(x, whole, rtol=0, atol=1e-14) == right


@pytest.mark.parametrize("tau", [0.0, 1e-3, 1.0, 30.0, 1e9])
@pytest.mark.parametrize("seed", range(3))
def test_a_screened_projection_is_the_whole_one_to_the_last_digits(seed, tau):
    """With a batch that adds nothing a step is P(x - q): here of 3000 coordinates, a few of them not zero before."""
    rng = np.random.default_rng(seed)
    d = 3000
    q = rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 1, d)
    x = np.where(rng.random(d) < 0.02, rng.standard_normal(d), 0.0)
    weights = np.where(rng.random(d) < 0.01, 0.0, 10.0 ** rng.uniform(-1, 1, d))
    u = np.where(rng.random(d) < 0.3, rng.uniform(-1, 1, d), 0.0)
    model = LinearModel(scipy.sparse.csr_array((1, d)), [1.0], "logistic")
    problem = Subproblem(model, Surrogate(weights, u, tau, 1.0, 1.0), np.zeros(d), 0.0)
    whole, y = project(x - q, u, tau, weights=weights)
    for guess in (0.0, 0.5 * y, 0.99 * y, 5 * y):
        progress = Progress(x.copy(), np.array([guess]))
        take_steps(problem, model, progress, np.zeros(1, np.int64), 1, np.ones(1), 1e300, (np.array([-0.5]), q))
        np.testing.assert_allclose(progress.x, whole, rtol=0, atol=4 * np.finfo(float).eps * np.max(np.abs(x - q)))
        assert progress.multiplier[0] == pytest.approx(y, rel=1e-14)
        assert np.array_equal(progress.x != 0, whole != 0)
