"""Random problems whose columns are in units from 1e-8 to 1e8, those that never count included."""

from __future__ import annotations

import numpy as np

from levelprox import LinearModel, Problem
from levelprox.constraints import L1, MCP, SCAD, Exp, Log
from tests.support.local_solver import LocalProblem

SMOOTH = ("squared", "logistic", "huber", "poisson", "squared_hinge")
KINKED = ("absolute", "quantile", "hinge")
CLASSES = ("logistic", "squared_hinge", "hinge")


def targets(loss, z, rng):
    """Targets of a loss for linear predictors z."""
    if loss in CLASSES:
        return np.where(rng.random(z.size) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    return rng.poisson(np.exp(np.clip(z / 3, -4, 3))).astype(float) if loss == "poisson" else z


def random_problem(loss, seed):
    """A problem, and the same for the local solver."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(25, 80)), int(rng.integers(2, 8))
    Z = rng.standard_normal((n, d)) + (rng.uniform(-5, 5, d) if rng.random() < 0.3 else 0.0)
    units = 10.0 ** rng.uniform(-8, 8, d)
    if rng.random() < 0.3:  # only some columns
        units = np.where(rng.random(d) < 0.3, units, 1.0)
    coefficients = rng.standard_normal(d) * (rng.random(d) < 0.6) * rng.uniform(0.3, 3)
    z = (Z - Z.mean(axis=0)) @ coefficients + rng.uniform(-2, 2) + rng.uniform(0.05, 1) * rng.standard_normal(n)
    X, b, intercept = Z * units, targets(loss, z, rng), bool(rng.random() < 0.6)
    weights = np.where(rng.random(d) < 0.25, 0.0, units if rng.random() < 0.3 else 1.0)
    weights[0] = weights[0] or 1.0
    t = 10.0 ** rng.uniform(-2, 1) / (np.median(units) if rng.random() < 0.5 else 1.0)
    constraint = [MCP.from_threshold(t), SCAD.from_threshold(t), L1(), Exp(1 / t), Log(1 / t)][rng.integers(5)]
    x = rng.standard_normal(d) * rng.uniform(0.1, 3) / units
    level = float(np.sum(weights * constraint.phi(np.abs(x)))) * rng.uniform(0.05, 1.2)
    if np.isfinite(constraint.threshold) and rng.random() < 0.5:
        level = constraint.cap * float(weights[weights > 0].mean()) * rng.uniform(0.3, d)
    A = np.column_stack([X, np.ones(n)]) if intercept else X
    weights = np.append(weights, 0.0) if intercept else weights
    problem = Problem(LinearModel(X, b, loss, fit_intercept=intercept), constraint, level, weights)
    return problem, LocalProblem(A, b, loss, constraint, level, weights)
