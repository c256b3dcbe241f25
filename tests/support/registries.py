"""What the tests run over: every constraint, loss, design and subsolver there is."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox.constraints import L1, MCP, SCAD, Constraint, Custom, Exp, Log, Lp, NegativeLp, Rescaled
from levelprox.designs import Design, ScaledDesign, as_design
from levelprox.losses import (
    Absolute,
    Cauchy,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Sigmoid,
    Squared,
    SquaredHinge,
)
from levelprox.objectives import Function, LinearModel, MultinomialModel, Objective, OneVsRestModel, Stochastic

Double = NDArray[np.float64]


def random_point(seed: int, d: int = 30) -> Double:
    """Return a point as the method meets them: about half zeros, the rest of either sign and any size."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], d) * 10.0 ** rng.uniform(-3, 2, d)
    return np.where(rng.random(d) < 0.5, 0.0, x)


# Two convex h for Custom, at module level so that the constraints can be pickled.
def huber(t: Double) -> Double:
    return np.where(t <= 1, np.minimum(t, 1) ** 2 / 2, t - 0.5)


def huber_derivative(t: Double) -> Double:
    return np.minimum(t, 1)


def pseudo_huber(t: Double) -> Double:
    return t * (t / (1 + np.hypot(1, t)))  # sqrt(1 + t**2) - 1 without cancellation or overflow


def pseudo_huber_derivative(t: Double) -> Double:
    return t / np.hypot(1, t)


CONSTRAINTS: list[Constraint] = [
    L1(),
    L1(2.5),
    MCP(2, 5),
    MCP(2, 0.25),
    MCP.from_threshold(0.3),
    SCAD(1, 3.7),
    SCAD(2, 1.5, 3),
    SCAD.from_threshold(0.7),
    Exp(1),
    Exp(5),
    Log(1),
    Log(0.01),
    Log(1000),
    Lp(0.5, 0.1),
    Lp(0.9, 1e-3),
    Lp(0.1, 2),
    NegativeLp(-1, 1),
    NegativeLp(-0.1, 20),
    NegativeLp(-8, 0.5),
    Custom(1, huber, huber_derivative, 1, cap=0.5),
    Custom(1, pseudo_huber, pseudo_huber_derivative, 1, cap=1),
    Custom(1.5, pseudo_huber, pseudo_huber_derivative, 1),
]

# Each of them seen through a wider lens, as continuation does; and some through a very wide one.
RESCALED = [
    *(Rescaled(constraint, 8.0) for constraint in CONSTRAINTS),
    *(Rescaled(constraint, 2.0**30) for constraint in (MCP(2, 0.25), Exp(5), Log(1000), Lp(0.1, 2))),
]

# Every loss, those with a parameter also away from its default, those with a kink also smoothed.
LOSSES = [
    Squared(),
    Logistic(),
    Huber(),
    Huber(delta=0.03),
    Absolute(),
    Absolute().smoothed(0.3),
    Quantile(),
    Quantile(q=0.9),
    Quantile(q=0.1).smoothed(2.0),
    Hinge(),
    Hinge().smoothed(0.7),
    Cauchy(),
    Cauchy(c=7.0),
    Sigmoid(),
    SquaredHinge(),
    Poisson(),
    Gamma(),
]

# Those whose steps can be chosen beforehand: ψ has an L, or an M.
BOUNDED_LOSSES = [loss for loss in LOSSES if not loss.smooth or np.isfinite(loss.smoothness)]


def targets_of(loss: Loss, b: Double) -> Double:
    """Numbers that are not 0, made into targets that the loss allows."""
    if loss.kind == "margin":
        return np.sign(b)
    return np.abs(b) if loss.kind in ("count", "positive") else b


# Designs: from a float64 array to every kind of storage. Those named float32 round its entries.


def strided(X: np.ndarray) -> np.ndarray:
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
    wide[::-2, ::3] = X
    return wide[::-2, ::3]


def with_indices(X: scipy.sparse.sparray, indices: type, indptr: type) -> scipy.sparse.sparray:
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indptr)
    return X


def unsorted(X: scipy.sparse.sparray) -> scipy.sparse.sparray:
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:end] = X.indices[start:end][::-1].copy()
        X.data[start:end] = X.data[start:end][::-1].copy()
    X.has_sorted_indices = False
    return X


def in_halves(X: scipy.sparse.sparray) -> scipy.sparse.sparray:
    """Every entry stored as two halves, far apart from each other."""
    slices = [slice(start, end) for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    data = [part for s in slices for part in (X.data[s] / 2, X.data[s] / 2)]
    indices = [part for s in slices for part in (X.indices[s], X.indices[s])]
    return type(X)((np.concatenate(data), np.concatenate(indices), 2 * X.indptr), shape=X.shape)


def with_zeros(X: np.ndarray) -> scipy.sparse.sparray:
    full = scipy.sparse.csr_array(np.ones_like(X))
    full.data[:] = X.ravel()
    return full


def dia(X: np.ndarray) -> scipy.sparse.sparray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.sparse.SparseEfficiencyWarning)
        return scipy.sparse.dia_array(X)


def scaled(X: np.ndarray, storage: Callable[[np.ndarray], object]) -> Design:
    """X times powers of two, and lazily divided by them: no entry is rounded."""
    scale = np.ldexp(1.0, np.arange(X.shape[1]) % 7 - 3)
    return ScaledDesign(as_design(storage(X * scale)), np.zeros(X.shape[1]), scale)


csr, csc = scipy.sparse.csr_array, scipy.sparse.csc_array

DESIGNS: dict[str, Callable[[np.ndarray], Design]] = {
    "dense C": lambda X: as_design(np.ascontiguousarray(X)),
    "dense Fortran": lambda X: as_design(np.asfortranarray(X)),
    "dense strided": lambda X: as_design(strided(X)),
    "dense big-endian": lambda X: as_design(X.astype(">f8")),
    "dense C float32": lambda X: as_design(np.ascontiguousarray(X, dtype=np.float32)),
    "dense Fortran float32": lambda X: as_design(np.asfortranarray(X, dtype=np.float32)),
    "CSR": lambda X: as_design(csr(X)),
    "CSC": lambda X: as_design(csc(X)),
    "CSR matrix": lambda X: as_design(scipy.sparse.csr_matrix(X)),
    "CSR float32": lambda X: as_design(csr(X.astype(np.float32))),
    "CSC float32": lambda X: as_design(csc(X.astype(np.float32))),
    "CSR int64": lambda X: as_design(with_indices(csr(X), np.int64, np.int64)),
    "CSC int64": lambda X: as_design(with_indices(csc(X), np.int64, np.int64)),
    "CSC float32 int64": lambda X: as_design(with_indices(csc(X.astype(np.float32)), np.int64, np.int64)),
    "CSR mixed indices": lambda X: as_design(with_indices(csr(X), np.int32, np.int64)),
    "CSR unsorted": lambda X: as_design(unsorted(csr(X))),
    "CSC unsorted": lambda X: as_design(unsorted(csc(X))),
    "CSR in halves": lambda X: as_design(in_halves(csr(X))),
    "CSC in halves": lambda X: as_design(in_halves(csc(X))),
    "CSR explicit zeros": lambda X: as_design(with_zeros(X)),
    "COO": lambda X: as_design(scipy.sparse.coo_matrix(X)),
    "LIL": lambda X: as_design(scipy.sparse.lil_array(X)),
    "DOK": lambda X: as_design(scipy.sparse.dok_array(X)),
    "DIA": lambda X: as_design(dia(X)),
    "BSR": lambda X: as_design(scipy.sparse.bsr_array(X)),
    "dense C scaled": lambda X: scaled(X, np.ascontiguousarray),
    "CSR scaled": lambda X: scaled(X, csr),
}

# Objectives: convex and not, dense and sparse, compiled and the user's own.


def _objectives() -> list[Objective]:
    rng = np.random.default_rng(11)
    X, noise = rng.standard_normal((40, 10)), rng.standard_normal(40)
    b = X[:, :3] @ [1.0, -0.7, 0.4] + 0.3 * noise
    thin = scipy.sparse.random_array((60, 10), density=0.3, rng=rng, format="csr")
    smooth = LinearModel(X, b, "huber")
    return [
        LinearModel(X, b, "squared"),
        LinearModel(np.asfortranarray(X), np.sign(b + rng.logistic(size=40)), "logistic"),
        LinearModel(thin, rng.standard_normal(60), "squared", sample_weight=rng.random(60)),
        LinearModel(X, b, "cauchy"),
        LinearModel(ScaledDesign.standardized(thin), rng.standard_normal(60), "huber"),
        Function(smooth.value_and_gradient, 10),
    ]


OBJECTIVES = _objectives()


def _grouped_objectives() -> tuple[list[MultinomialModel], list[OneVsRestModel]]:
    """Of several coefficients a feature: three and two classes, dense and sparse, with weights and offsets."""
    rng = np.random.default_rng(13)
    X = rng.standard_normal((60, 8))
    scores = X[:, :3] @ rng.standard_normal((3, 3)) + rng.gumbel(size=(60, 3))
    label = np.argmax(scores, axis=1)
    thin = scipy.sparse.random_array((80, 8), density=0.4, rng=rng, format="csr")
    named, weight = np.array(["b", "a", "c"])[label], rng.random(60)
    four, offset = rng.integers(0, 4, 80), 0.3 * rng.standard_normal((80, 4))
    multinomial = [
        MultinomialModel(X, label),
        MultinomialModel(np.asfortranarray(X), named, sample_weight=weight),
        MultinomialModel(thin, four, offset=offset),
        MultinomialModel(X, label > 0),
    ]
    one_vs_rest = [
        OneVsRestModel(X, label),
        OneVsRestModel(np.asfortranarray(X), named, "squared_hinge", sample_weight=weight),
        OneVsRestModel(thin, four, Hinge().smoothed(0.5), offset=offset),
        OneVsRestModel(X, label > 0, "sigmoid"),
        OneVsRestModel(ScaledDesign.standardized(thin), four, sample_weight=rng.random(80)),
    ]
    return multinomial, one_vs_rest


MULTINOMIAL_OBJECTIVES, ONE_VS_REST_OBJECTIVES = _grouped_objectives()
GROUPED_OBJECTIVES: list[MultinomialModel | OneVsRestModel] = [*MULTINOMIAL_OBJECTIVES, *ONE_VS_REST_OBJECTIVES]


def sampling_rows(model: LinearModel, batch: int) -> Callable[[Double, np.random.Generator], Double]:
    """A stochastic oracle: the gradient of a few rows of a dense linear model, drawn with replacement."""
    rows = np.column_stack([model.design.matvec(e) for e in np.eye(model.dimension)])

    def oracle(x: Double, rng: np.random.Generator) -> Double:
        chosen = rng.integers(0, rows.shape[0], batch)
        slope, _ = model.loss.subdifferential(rows[chosen] @ x, model.target[chosen])
        return rows[chosen].T @ slope / batch

    return oracle


def _rough_objectives() -> list[Objective]:
    """With kinks, sampled, or both."""
    rng = np.random.default_rng(12)
    X, noise = rng.standard_normal((40, 10)), rng.standard_normal(40)
    b = X[:, :3] @ [1.0, -0.7, 0.4] + 0.3 * noise
    absolute, cauchy = LinearModel(X, b, "absolute"), LinearModel(X, b, "cauchy")
    return [
        absolute,
        LinearModel(scipy.sparse.csr_array(X), np.sign(b), "hinge", sample_weight=rng.random(40)),
        LinearModel(np.asfortranarray(X), b, Quantile(0.8), offset=0.1 * noise),
        Function(absolute.value_and_gradient, 10, smoothness=0.0, nonsmoothness=absolute.nonsmoothness),
        Stochastic(
            sampling_rows(cauchy, 4),
            10,
            noise=cauchy.noise / 2,
            smoothness=cauchy.smoothness,
            weak_convexity=cauchy.weak_convexity,
            exact=cauchy.value_and_gradient,
        ),
        Stochastic(
            sampling_rows(absolute, 4), 10, noise=absolute.noise / 2, nonsmoothness=absolute.nonsmoothness, samples=50
        ),
    ]


ROUGH_OBJECTIVES = _rough_objectives()
