"""The second-order model over a surrogate set: exactly feasible, stationary, and no worse than a slow twin."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import _kernels, project
from levelprox.objectives import Quadratic
from levelprox.projection import group_norms
from tests import reference
from tests.projection_cases import EPS, LONG

EXAMPLES = 3000 if LONG else 250
KINDS = ("regular", "singular", "repeated columns", "zero columns", "scales")
RIDGE = 1e-9  # of the diagonal, as Newton's steps have it


class Case:
    """One random model: H = A'A of some kind, a set, and a point of it."""

    def __init__(self, seed, features, width, kind, plain=False):
        rng = np.random.default_rng(seed)
        self.width, d = width, features * width
        self.kind = kind
        A = rng.standard_normal((max(1, d // 2) if kind == "singular" else 2 * d, d))
        columns = rng.integers(0, features, features) if kind == "repeated columns" else np.arange(features)
        A = A.reshape(-1, features, width)[:, columns, :]
        if kind == "zero columns":
            A[:, rng.random(features) < 0.5, :] = 0
        self.size = np.ones(d)
        if kind == "scales":
            self.size = np.repeat(10.0 ** rng.uniform(-8, 8, features), width)
        A = A.reshape(-1, d) * self.size
        self.hessian = A.T @ A
        self.diagonal = np.ascontiguousarray(np.diagonal(self.hessian))
        gamma = 1e-9 * float(np.mean(self.diagonal)) or 1.0
        self.ridge = RIDGE * self.diagonal + (0.0 if kind == "scales" else gamma)
        # A gradient in the range of A', as a loss has it: the model is bounded below by much more than its ridge.
        self.gradient = A.T @ rng.standard_normal(A.shape[0]) * 10.0 ** rng.uniform(-3, 3)
        self.u, self.nonnegative, self.weights = None, None, None
        if width == 1 and not plain:
            if rng.random() < 0.5:
                self.u = np.where(rng.random(d) < 0.3, rng.choice([-1.0, 1.0], d), rng.uniform(-1, 1, d))
            if rng.random() < 0.5:
                self.nonnegative = rng.random(d) < 0.5
        if rng.random() < 0.7:
            self.weights = np.where(rng.random(features) < 0.2, 0.0, 10.0 ** rng.uniform(-1, 1, features))
        v = rng.standard_normal(d) * (rng.random(d) < 0.6) / self.size
        far = np.linalg.lstsq(self.hessian * np.outer(1 / self.size, 1 / self.size), -self.gradient / self.size)[0]
        spent = self.spent(far / self.size)
        self.tau = float(rng.choice([0.0, np.inf, 0.3 * spent, 0.9 * spent, 2 * spent], p=[0.1, 0.1, 0.4, 0.3, 0.1]))
        self.x, _ = self.project(v)

    def spent(self, x):
        """What the set asks of x, but for u."""
        sizes = group_norms(np.ascontiguousarray(x), self.width)
        return float(np.sum(sizes if self.weights is None else self.weights * sizes))

    def project(self, v, unit=None):
        """Onto the set, or onto the same set in other coordinates x / unit."""
        weights = np.ones(v.size // self.width) if self.weights is None else self.weights
        if self.tau == np.inf:
            return (v if self.nonnegative is None else np.where(self.nonnegative, np.maximum(v, 0), v)), 0.0
        if unit is not None:
            weights = weights * unit[:: self.width]
        u = 0.0 if self.u is None else self.u
        return project(v, u, self.tau, weights=weights, nonnegative=self.nonnegative, width=self.width)

    @property
    def set(self):
        mask = None if self.nonnegative is None else self.nonnegative.view(np.uint8)
        return _kernels.Set(self.x.size, self.weights, self.u, mask, False, self.tau, width=self.width)

    def solve(self, x=None, gradient=None, product=False, relative=1e-12, products=20_000, multiplier=0.0):
        hessian = (lambda v: self.hessian @ v) if product else self.hessian
        x, gradient = self.x if x is None else x, self.gradient if gradient is None else gradient
        settings_ = (multiplier, relative, products)
        return _kernels.quadratic(hessian, self.set, x, gradient, self.diagonal, self.ridge, *settings_)

    def slope(self, x):
        return self.gradient + self.hessian @ (x - self.x) + self.ridge * (x - self.x)

    def model(self, x):
        return float((x - self.x) @ (self.gradient + self.slope(x))) / 2

    @property
    def unit(self):
        bend = (self.diagonal + self.ridge).reshape(-1, self.width).mean(axis=1)
        return np.repeat(1 / np.sqrt(np.where(bend > 0, bend, 1.0)), self.width)

    def residual(self, x):
        """|P(x - slope) - x| where Q has a unit diagonal."""
        unit = self.unit
        z, slope = x / unit, self.slope(x) * unit
        return float(np.max(np.abs(self.project(z - slope, unit)[0] - z)))

    def is_inside(self, x):
        """In rational arithmetic."""
        if self.nonnegative is not None and np.any(x[self.nonnegative] < 0):
            return False
        if self.tau == np.inf:
            return True
        sizes = group_norms(x, self.width)
        weights = np.ones(sizes.size) if self.weights is None else self.weights
        if self.u is None:
            return reference.exact_level(sizes, np.zeros(sizes.size), weights) <= Fraction(self.tau)
        return reference.exact_level(x, self.u, weights) <= Fraction(self.tau)


any_case = st.builds(
    Case, st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([1, 1, 3]), st.sampled_from(KINDS)
)
