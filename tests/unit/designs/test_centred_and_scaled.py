"""Centred and scaled designs with an intercept: products equal those of the explicit matrix, which is never formed."""

from __future__ import annotations

import pickle
import resource
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from levelprox import InvalidInputError, LinearModel, Problem, Status, constraints, solve
from levelprox.designs import Design, InterceptDesign, ScaledDesign, as_design
from levelprox.exceptions import ConvergenceWarning
from levelprox.losses import Absolute, Cauchy, Hinge, Huber, Logistic, Poisson, Squared
from levelprox.methods.subsolvers import SUBSOLVERS
from tests.support.registries import DESIGNS, LOSSES, targets_of, unsorted

STORAGES = ["dense C", "dense Fortran", "dense C float32", "CSR", "CSC", "CSR float32", "CSC float32 int64"]
KINDS = ["neither", "centred", "scaled", "both"]


def data(n=37, d=6, seed=0):
    """Numbers that float32 holds, a third of them zero; a column without zeros, one without anything else."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 2 / 3, 2 + rng.standard_normal((n, d)), 0.0)
    X[:, 1], X[:, 2] = 3 + rng.standard_normal(n), 0
    return X.astype(np.float32).astype(float)


def build(storage="CSR", kind="both", intercept=True, X=None, seed=1) -> tuple[Design, np.ndarray]:
    """A design of that kind, and the matrix it stands for."""
    X = data() if X is None else X
    d, rng = X.shape[1], np.random.default_rng(seed)
    center = rng.standard_normal(d) if kind in ("centred", "both") else None
    scale = np.exp(rng.standard_normal(d)) if kind in ("scaled", "both") else None
    design: Design = ScaledDesign(DESIGNS[storage](X), center, scale)
    A = (X - (0 if center is None else center)) / (1 if scale is None else scale)
    return (InterceptDesign(design), np.column_stack([A, np.ones(len(A))])) if intercept else (design, A)


def assert_equals(design: Design, A: np.ndarray, tolerance: float = 1e-12) -> None:
    """Every method of a design against the explicit matrix."""
    n, d = A.shape
    rng = np.random.default_rng(2)
    x, r, D = rng.standard_normal(d), rng.standard_normal(n), rng.standard_normal(n)
    assert design.shape == A.shape

    def close(name, got, want):
        assert got.shape == want.shape and got.dtype == np.float64, name
        error, size = np.max(np.abs(got - want), initial=0), np.max(np.abs(want), initial=1)
        assert error <= tolerance * size, f"{name}: {error:.3g}"

    close("matvec", design.matvec(x), A @ x)
    close("rmatvec", design.rmatvec(r), A.T @ r)
    close("column_squares", design.column_squares(), (A**2).sum(axis=0))
    close("weighted column_squares", design.column_squares(D), D @ A**2)
    close("row_squares", design.row_squares(), (A**2).sum(axis=1))
    close("gram", design.gram(), A.T @ A)
    weighted, want = design.gram(D), A.T @ (D[:, None] * A)
    close("weighted gram", weighted, want)
    assert np.array_equal(weighted, weighted.T), "the Gram matrix is symmetric to the last bit"
    for k in {1, d // 2, d} - {0}:
        known = want[:k, :k] + 1
        close("known gram", design.gram(D, known=known)[k:], want[k:])
        assert np.array_equal(design.gram(D, known=known)[:k, :k], known)
    assert np.all(design.row_magnitudes(x) >= (np.abs(A) @ np.abs(x)) * (1 - 1e-12))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", STORAGES)
def test_every_method_equals_that_of_the_explicit_matrix(storage, kind, intercept):
    design, A = build(storage, kind, intercept)
    assert_equals(design, A)
    assert design.dtype == (np.float32 if "float32" in storage else np.float64)
    assert design.nbytes >= DESIGNS[storage](data()).nbytes and design.stored == DESIGNS[storage](data()).stored
    assert_equals(design.row_major(), A)
    assert_equals(pickle.loads(pickle.dumps(design)), A)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC"])
def test_selections_keep_centers_scales_and_intercepts_in_any_order(storage, kind):
    design, A = build(storage, kind)
    d = A.shape[1]
    for W in ([3, 0], [d - 1], [d - 1, 2, 2, 0], [4, d - 1, 1, d - 1], np.arange(d), np.arange(d)[::-1], A[0] > 0):
        for selected in (design.columns(W), design.view(W)):
            assert_equals(selected, A[:, W])
            assert np.array_equal(selected.ones, np.flatnonzero(np.arange(d)[W] == d - 1))
            assert_equals(selected.columns([0]), A[:, W][:, [0]])
    for B in ([5], [7, 0, 7], np.arange(len(A)) % 2 == 0):
        assert_equals(design.rows(B), A[B])
    assert design.columns([]).shape == (len(A), 0) and design.rows([]).shape == (0, d)
    assert design.view(np.arange(d)) is design


FAULTS = {
    "the intercept is not added": (InterceptDesign, {"matvec": lambda A, x: A.base.matvec(x[:-1])}),
    "the residuals are not summed": (InterceptDesign, {"rmatvec": lambda A, r: np.append(A.base.rmatvec(r), r[0])}),
    "squares are not centred": (ScaledDesign, {"column_squares": lambda A, w=None: A.base.column_squares(w)}),
    "the center is forgotten": (ScaledDesign, {"rmatvec": lambda A, r: A._scaled(A.base.rmatvec(r))}),
    "known is not copied": (ScaledDesign, {"gram": lambda A, D=None, known=None: ScaledDesign.gram(A, D)}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_equality_test_catches_that(fault):
    kind, methods = FAULTS[fault]
    design, A = build(intercept=kind is InterceptDesign)
    faulty = object.__new__(type("Faulty", (kind,), methods))
    faulty.__dict__ = design.__dict__
    with pytest.raises(AssertionError):
        assert_equals(faulty, A)


class Unknown(Design):
    """A storage of someone else's: Python products, and copies of rows and columns."""

    def __init__(self, base: Design) -> None:
        self.base, self.shape, self.dtype, self.nbytes = base, base.shape, base.dtype, base.nbytes

    stored = property(lambda self: self.base.stored)
    kernel = property(lambda self: self.base.kernel)
    row_major = None
    _gram = property(lambda self: self.base._gram)
    _columns = property(lambda self: self.base._columns)

    def _rows(self, chosen):
        return Unknown(self.base.rows(chosen))


@pytest.mark.parametrize("storage", ["dense Fortran", "CSR"])
def test_other_designs_are_centred_in_blocks_of_rows(storage, monkeypatch):
    monkeypatch.setattr("levelprox.designs.scaled._BLOCK", 50)
    design, A = build(storage, intercept=False)
    assert_equals(design, A)
    assert_equals(ScaledDesign(Unknown(design.base), design.center_, design.scale_), A)


# Digits


def far_away(storage, ratio=1e6, n=200, d=4, seed=3):
    """Columns whose means are `ratio` standard deviations, and them standardised in long double."""
    rng = np.random.default_rng(seed)
    X = ratio * np.exp(rng.standard_normal(d)) + rng.standard_normal((n, d))
    X = X.astype(np.float32).astype(float) if "float32" in storage else X
    design = ScaledDesign.standardized(DESIGNS[storage](X))
    return design, (X.astype(np.longdouble) - design.center_) / design.scale_


@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "dense C float32"])
def test_a_gram_matrix_keeps_ten_digits_when_means_are_a_million_deviations(storage):
    design, A = far_away(storage, 1e3 if "float32" in storage else 1e6)
    D = np.random.default_rng(4).random(200)
    want = A.T @ (D[:, None] * A)
    size = np.sqrt(np.outer(np.diag(want), np.diag(want)))
    assert np.max(np.abs(design.gram(D) - want) / size) < 1e-13
    assert np.max(np.abs(InterceptDesign(design).gram(D)[-1, :-1] - D @ A)) < 1e-12
    if "float32" not in storage:  # what expanding the squares would leave of it
        expanded = design._scaled(design._scaled(design._centred(design.base.gram(D), design.center_, D)).T)
        assert np.max(np.abs(expanded - want) / size) > 1e-7


@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC"])
def test_products_lose_no_more_than_the_means_cost(storage):
    design, A = far_away(storage)
    rng = np.random.default_rng(5)
    x, r, D = rng.standard_normal(4), rng.standard_normal(200), rng.random(200)
    np.testing.assert_allclose(design.matvec(x), (A @ x).astype(float), rtol=0, atol=1e-8)
    np.testing.assert_allclose(design.rmatvec(r), (A.T @ r).astype(float), rtol=0, atol=1e-7)
    # Sums of squares lose nothing, even where X is stored as sparse.
    np.testing.assert_allclose(design.column_squares(D), (D @ A**2).astype(float), rtol=1e-13)
    np.testing.assert_allclose(design.row_squares(), (A**2).sum(axis=1).astype(float), rtol=1e-13)
    assert np.all(np.abs(design.matvec(x) - A @ x) <= 1e-15 * design.row_magnitudes(x))


def test_sparse_columns_beside_full_ones_cost_those_no_digits():
    design, A = far_away("CSC")
    X, weight = scipy.sparse.csc_array((200, 6)).tolil(), np.random.default_rng(6).random(200)
    X[:, :4] = design.base._scipy().toarray()
    X[3, 4] = 1.0
    for storage in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        base = as_design(unsorted(storage(X)))  # weights of stored entries add up in another order than all weights
        wide = ScaledDesign(base, np.append(design.center_, [1, 2]), np.append(design.scale_, [1, 1]))
        squares = wide.column_squares(weight)
        np.testing.assert_allclose(squares[:4], (weight @ A**2).astype(float), rtol=1e-13)
        np.testing.assert_allclose(squares[4:], [weight.sum() - weight[3], 4 * weight.sum()], rtol=1e-13)
        np.testing.assert_allclose(wide.row_squares()[4:], (A**2).sum(axis=1).astype(float)[4:] + 5, rtol=1e-10)


def test_the_shift_of_all_margins_is_a_compensated_sum():
    nothing = as_design(scipy.sparse.csr_array((1, 3)))
    model = LinearModel(ScaledDesign(nothing, np.ones(3)), [0.0])
    assert model.value_and_gradient(np.array([1e16, 1.0, -1e16]))[0] == 1.0


def test_a_fit_far_from_the_origin_is_that_of_the_centred_data():
    design, A = far_away("dense C")
    b = np.sign(np.asarray(A[:, 0] - 0.5 * A[:, 1], float) + 0.3)
    far, near = LinearModel(design, b, "logistic"), LinearModel(A.astype(float), b, "logistic")
    fits = [solve(Problem(model, constraints.L1(), 1.0), tol=1e-7) for model in (far, near)]
    assert all(fit.status is Status.SOLVED for fit in fits)
    np.testing.assert_allclose(fits[0].x, fits[1].x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_kinks_are_met_though_margins_have_lost_digits_to_the_means(loss):
    design, A = far_away("dense C", 1e4)
    b = np.asarray(A[:, 0] - 0.5 * A[:, 1], float) + 0.3 * np.random.default_rng(7).standard_normal(200)
    b = np.sign(b) if loss == "hinge" else b
    model = LinearModel(design, b, loss, fit_intercept=True)
    fit = solve(Problem(model, constraints.L1(), 1.0), max_iter=60)
    assert fit.status is Status.SOLVED
    # ‖a_i‖ says nothing of the rounding of margins, which are differences of large numbers.
    error = np.abs(model.margins(fit.x) - (A @ fit.x[:-1] + fit.x[-1]))
    assert np.all(error <= model.near_a_kink(fit.x))
    assert np.any(error > 1e-12 * (np.abs(b) + np.sqrt(model.row_squares) * np.linalg.norm(fit.x)))


# ψ


@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC float32 int64"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_compiled_model_equals_that_of_the_explicit_matrix(loss, storage):
    rng = np.random.default_rng(6)
    for kind, intercept in (("both", True), ("both", False), ("neither", True), ("centred", True), ("scaled", False)):
        design, A = build(storage, kind, intercept)
        b, s, o = targets_of(loss, rng.standard_normal(37)), rng.integers(0, 3, 37), rng.standard_normal(37)
        x = 0.3 * rng.standard_normal(A.shape[1])
        for W in (np.arange(A.shape[1]), np.arange(A.shape[1])[::-1]):  # the intercept last, and first
            lazy, explicit = LinearModel(design.columns(W), b, loss, s, o), LinearModel(A[:, W], b, loss, s, o)
            (value, gradient), (want, slope) = lazy.value_and_gradient(x), explicit.value_and_gradient(x)
            assert value == pytest.approx(want, rel=1e-12)
            np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-12 * np.max(np.abs(slope)))


@pytest.mark.parametrize("loss", [Squared(), Cauchy(), Absolute(), Hinge(), Logistic()], ids=str)
def test_curvature_constants_of_psi_are_the_same(loss):
    design, A = build()
    rng = np.random.default_rng(7)
    b, x = targets_of(loss, rng.standard_normal(37)), rng.standard_normal(7)
    lazy, explicit = LinearModel(design, b, loss), LinearModel(A, b, loss)
    for name in ("curvature", "smoothness", "weak_convexity", "nonsmoothness", "noise"):
        assert getattr(lazy, name) == pytest.approx(getattr(explicit, name), rel=1e-9), name
    for point in (x, A.T @ b, np.linalg.lstsq(A, b)[0]):
        assert lazy.is_separated(point) == explicit.is_separated(point)
    if loss.smooth:
        z = explicit.margins(x)
        np.testing.assert_allclose(lazy.hessian_of(z, True), explicit.hessian_of(z, True), rtol=0, atol=1e-12)
        np.testing.assert_allclose(lazy.hessian_diagonal_of(z, True), explicit.hessian_diagonal_of(z, True), rtol=1e-12)
    else:
        on_kinks = np.linalg.solve(A[np.ix_([0, 3, 5, 6, 9, 11], [0, 1, 3, 4, 5, 6])], b[[0, 3, 5, 6, 9, 11]])
        point = np.insert(on_kinks, 2, 0.0)
        got, want = lazy.subgradients(point), explicit.subgradients(point)
        assert got.radius.size == want.radius.size >= 6
        np.testing.assert_allclose(got.center, want.center, rtol=0, atol=1e-12)
        assert_equals(got.rows, A[np.abs(b - A @ point) < 1e-9])


@pytest.mark.parametrize("storage", ["dense Fortran", "CSR"])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(), Poisson(), Absolute(), Hinge()], ids=str)
def test_a_solve_is_that_of_the_explicit_matrix(loss, storage):
    rng = np.random.default_rng(8)
    X = data(120, 8)
    b = targets_of(loss, X[:, 0] - X[:, 3] + 0.5 + rng.logistic(size=120))
    scaled = ScaledDesign.standardized(DESIGNS[storage](X))
    A = np.column_stack([(X - scaled.center_) / scaled.scale_, np.ones(120)])
    constraint, level = constraints.SCAD(1, 3.7), 1.5
    lazy = solve(Problem(LinearModel(scaled, b, loss, fit_intercept=True), constraint, level))
    explicit = solve(Problem(LinearModel(A, b, loss), constraint, level, weights=[1.0] * 8 + [0.0]))
    assert lazy.status is explicit.status is Status.SOLVED
    assert lazy.psi == pytest.approx(explicit.psi, rel=1e-6) and lazy.x[-1] != 0
    np.testing.assert_allclose(lazy.x, explicit.x, rtol=0, atol=2e-4)
    assert lazy.certificate.kkt <= 1e-6
    coefficients, shift = scaled.unscaled(lazy.x[:-1])
    np.testing.assert_allclose(X @ coefficients + shift + lazy.x[-1], A @ lazy.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["spectral", "nesterov", "acsa"])
def test_every_subsolver_that_sees_all_of_psi_takes_it(name):
    design, A = build()
    b = np.sign(data()[:, 0] - 1.5)
    ends = [
        solve(Problem(model, constraints.L1(), 0.5, [1.0] * 6 + [0.0]), subsolver=name, max_iter=3000, tol=1e-5)
        for model in (LinearModel(design, b, "logistic"), LinearModel(A, b, "logistic"))
    ]
    assert all(end.status is Status.SOLVED for end in ends)
    assert ends[0].psi == pytest.approx(ends[1].psi, rel=1e-6)


@pytest.mark.parametrize("name", ["sgd", "svrg"])
def test_subsolvers_that_sample_rows_name_alternatives(name):
    for design, _ in (build(), build(intercept=False), build(kind="neither")):
        problem = Problem(LinearModel(design, np.sign(data()[:, 0] - 2), "logistic"), constraints.L1(), 1.0)
        with pytest.raises(
            InvalidInputError, match=r"without an intercept\); .*can take it: newton, spectral, nesterov, acsa"
        ):
            solve(problem, subsolver=name)
        with pytest.raises(InvalidInputError, match="centred, scaled or has an intercept, leave batch_size out"):
            solve(problem, subsolver=SUBSOLVERS["acsa"](batch_size=3))
        with pytest.raises(InvalidInputError, match="no rows"):
            _ = problem.objective.by_rows


def test_sparse_data_are_never_made_dense():
    rng = np.random.default_rng(9)
    n, d = 20_000, 3_000  # dense it would have 480 MB
    X = scipy.sparse.random_array((n, d), density=1e-3, rng=rng, format="csr")
    b = np.sign(rng.standard_normal(n))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        model = LinearModel(ScaledDesign.standardized(X), b, "logistic", fit_intercept=True)
        with pytest.warns(ConvergenceWarning, match="after 3 outer steps"):
            fit = solve(Problem(model, constraints.MCP.from_threshold(0.5), 5.5), tol=0, max_iter=3)
        few = model.restrict(np.append(np.flatnonzero(fit.x[:-1])[:20], d))
        few.hessian_of(few.margins(np.zeros(few.dimension)), True)
        model.hessian_diagonal_of(model.margins(fit.x), True), model.design.row_squares()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8e6, f"{peak / 1e6:.1f} MB beside X"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (1024 if sys.platform == "darwin" else 1)
    assert grown < 100e3, f"{grown / 1e3:.0f} MB, those of the kernels included"


def test_the_gram_matrix_of_dense_data_takes_one_copy():
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((20_000, 20))
    design = ScaledDesign(as_design(X), X.mean(axis=0), X.std(axis=0))
    before = X.copy()
    tracemalloc.start()
    try:
        design.gram(rng.random(20_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * X.nbytes
    np.testing.assert_array_equal(X, before)
