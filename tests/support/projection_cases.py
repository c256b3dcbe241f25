"""Random projections, and the invariants as checks that take the projection they judge.

A check gets `project(**changes)`, the projection of its case with some arguments changed: the real
one, or one with a planted fault.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from levelprox import project
from tests.support import reference
from tests.support.long_runs import LONG

EPS = np.finfo(float).eps
EXAMPLES = 20_000 if LONG else 400


class Case:
    """One random projection: everything from a seed, so that hypothesis can shrink to a small one."""

    def __init__(self, seed, d, general=False, dtype=np.float64):
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.v = rng.standard_normal(d) * 10.0 ** rng.uniform(-6, 6)
        if rng.random() < 0.3:
            self.v *= 10.0 ** rng.uniform(-6, 6, d)
        self.v[rng.random(d) < 0.1] = 0
        self.u = rng.uniform(-1, 1, d)
        if rng.random() < 0.5:  # saturated coordinates, on their own side and on the other
            self.u = np.where(rng.random(d) < 0.3, rng.choice([-1.0, 1.0], d), self.u)
        if general:
            self.u *= 10.0 ** rng.uniform(-1, 1.5)
        self.weights = np.ones(d)
        if rng.random() < 0.5:
            spread = rng.choice([2, 6])  # prices that differ by many orders of magnitude, too
            self.weights = np.where(rng.random(d) < 0.1, 0.0, 10.0 ** rng.uniform(-spread, spread, d))
        self.nonnegative = rng.random(d) < (0.0 if rng.random() < 0.5 else 0.5)
        self.v, self.u, self.weights = (a.astype(dtype) for a in (self.v, self.u, self.weights))
        self.tau = float(np.sum(self.weights * np.abs(self.v))) * 10.0 ** rng.uniform(-9, 0.5)
        if rng.random() < 0.1:
            self.tau = 0.0
        if general and np.any((np.abs(self.u) > 1) & (self.weights > 0) & ~self.nonnegative) and rng.random() < 0.3:
            self.tau = -self.tau

    def project(self, **changes):
        arguments = {"weights": self.weights, "nonnegative": self.nonnegative} | changes
        return project(
            arguments.pop("v", self.v),
            arguments.pop("u", self.u),
            arguments.pop("tau", self.tau),
            **arguments,
        )

    @property
    def scale(self):
        return float(np.max(np.abs(self.v), initial=0.0)) or 1.0

    def feasible_points(self, x, count=5):
        """Points of the set: 0 and shrunk versions of random ones (|u| <= 1 only)."""
        for _ in range(count):
            z = self.rng.standard_normal(x.size) * self.scale
            z = np.where(self.nonnegative, np.abs(z), z)
            level = float(np.sum(self.weights * (np.abs(z) + self.u * z)))
            yield z * min(1.0, self.tau / level) * (1 - 1e-12) if level > 0 else z


cases = st.builds(Case, st.integers(0, 2**32), st.integers(1, 40))
general_cases = st.builds(Case, st.integers(0, 2**32), st.integers(1, 40), general=st.just(True))
any_case = st.one_of(
    cases,
    general_cases,
    st.builds(Case, st.integers(0, 2**32), st.integers(1, 40), dtype=st.just(np.float32)),
)


def check_feasible(case, project):
    """Check that the constraint holds in rational arithmetic."""
    x, _ = project()
    level = reference.exact_level(x, case.u, case.weights)
    assert level <= Fraction(case.tau), f"level - tau = {float(level - Fraction(case.tau)):.3g}, tau = {case.tau:.17g}"
    assert not np.any(x[case.nonnegative] < 0)


def check_kkt(case, project):
    """Check that v - x is y times a subgradient, and y (level - tau) = 0, up to rounding."""
    x, y = project()
    eps = np.finfo(x.dtype).eps
    x, v, u, w = (np.asarray(a, float) for a in (x, case.v, case.u, case.weights))
    assert y >= 0
    rest = v - x - y * w * u
    at_zero = np.where(case.nonnegative, np.maximum(rest - y * w, 0), np.maximum(np.abs(rest) - y * w, 0))
    error = np.where(x != 0, np.abs(rest - y * w * np.sign(x)), at_zero)
    allowed = 8 * eps * max(np.max(np.abs(v)), y * np.max(w * (1 + np.abs(u))))
    assert np.max(error) <= allowed, f"stationarity {np.max(error):.3g} > {allowed:.3g}"
    if y > 0:
        slack = float(Fraction(case.tau) - reference.exact_level(x, u, w))
        if np.all(np.abs(u) <= 1):
            price = w * (1 + np.where(case.nonnegative, 1, np.sign(v)) * u)
            size = np.where(case.nonnegative, np.maximum(v, 0), np.abs(v))
            spent = float(np.sum((price * size)[size * (1 + 8 * eps) >= price * y]))
        else:
            spent = float(np.sum(w * (1 + np.abs(u)) * (np.abs(v) + np.abs(x))))
        assert slack <= 8 * eps * (abs(case.tau) + spent), f"slack {slack:.3g} with y = {y:.3g}"


def check_idempotent(case, project):
    """Check that a feasible point comes back bit for bit, with multiplier 0."""
    x, _ = case.project()
    again, y = project(v=x)
    np.testing.assert_array_equal(again.view(np.uint8), x.view(np.uint8))
    assert y == 0


def check_nonexpansive(case, project):
    """Check that |P(v) - P(v')| <= |v - v'|."""
    rng = np.random.default_rng(1)
    for size in (1e-8, 1e-4, 1.0):
        other = case.v + rng.standard_normal(case.v.size) * case.scale * size
        apart = np.linalg.norm(project()[0] - project(v=other)[0])
        lengths = np.linalg.norm(case.v) + np.linalg.norm(other)
        assert apart <= np.linalg.norm(case.v - other) * (1 + 4 * EPS) + 8 * EPS * lengths


def check_variational(case, project):
    """Check that <v - P(v), z - P(v)> <= 0 for every feasible z."""
    x, _ = project()
    for z in (case.project()[0], np.zeros_like(x), *case.feasible_points(x)):
        product = float((case.v - x) @ (z - x))
        rounding = 1e-11 * np.linalg.norm(case.v - x) * np.linalg.norm(z - x) + 64 * EPS * case.scale**2 * x.size
        assert product <= rounding


def check_scaling(case, project, k=7):
    """Check that P(cv, u, c tau) = c P(v, u, tau), bit for bit for powers of two."""
    x, y = project()
    scaled, y_scaled = project(v=case.v * 2.0**k, tau=case.tau * 2.0**k)
    np.testing.assert_array_equal(scaled, x * 2.0**k)
    assert y_scaled == y * 2.0**k


def check_signs(case, project):
    """Check that P(Dv, Du, tau) = D P(v, u, tau) for D = diag(±1)."""
    free = np.zeros_like(case.nonnegative)
    x, y = project(nonnegative=free)
    flip = np.where(np.arange(x.size) % 2, -1.0, 1.0)
    flipped, y_flipped = project(v=flip * case.v, u=flip * case.u, nonnegative=free)
    np.testing.assert_array_equal(flipped, flip * x)
    assert y_flipped == y


def check_permutations(case, project):
    """Check that the order of the coordinates does not matter."""
    x, _ = project()
    order = np.arange(x.size)[::-1]
    arguments = {name: getattr(case, name)[order] for name in ("v", "u", "weights", "nonnegative")}
    np.testing.assert_allclose(project(**arguments)[0], x[order], rtol=0, atol=16 * EPS * case.scale)


def check_monotone(case, project):
    """Check that a larger level has a smaller multiplier and a nearer point."""
    x, y = project()
    larger, y_larger = project(tau=case.tau * 1.5)
    assert y_larger <= y * (1 + 8 * EPS)
    assert np.linalg.norm(larger - case.v) <= np.linalg.norm(x - case.v) + 8 * EPS * np.linalg.norm(case.v)


def check_shrinks(case, project):
    """Check that |u| <= 1 never flips a sign nor grows a coordinate."""
    x, _ = project()
    assert np.all((np.sign(x) == 0) | (np.sign(x) == np.sign(case.v)))
    assert np.all(np.abs(x) <= np.abs(case.v))
