"""The schedules η_k (Assumption 2, Theorem "complexity_main")."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest

from levelprox.exceptions import InvalidInputError
from levelprox.methods.lcpp import LEVELS, Constant, Geometric, Harmonic, Levels, levels_by_name


def check_harmonic(levels: Levels, eta: float, eta0: float, K: int = 200) -> None:
    """Check that δ_k = (η − η_0)/(k(k+1)) > 0, so Σ_{k≤K} δ_k = (η − η_0)K/(K+1)."""
    etas = [eta0, *islice(levels.sequence(eta, 0.0), K)]
    for k, (before, after) in enumerate(pairwise(etas), start=1):
        delta = (eta - eta0) / (k * (k + 1))
        assert after - before == pytest.approx(delta, rel=1e-6, abs=4e-16 * eta)
    assert etas[-1] - eta0 == pytest.approx((eta - eta0) * K / (K + 1), rel=1e-12)
    assert etas[-1] == pytest.approx((K * eta + eta0) / (K + 1), rel=1e-14)


def test_the_harmonic_levels_are_the_papers():
    check_harmonic(Harmonic(eta0=0.7), eta=3.0, eta0=0.7)


def test_a_wrong_delta_is_caught():
    class Wrong(Harmonic):
        def at(self, k, eta0, level):
            return level - (level - eta0) / (k + 2)

    with pytest.raises(AssertionError):
        check_harmonic(Wrong(eta0=0.7), eta=3.0, eta0=0.7)


@pytest.mark.parametrize("name", LEVELS)
def test_levels_rise_to_eta_and_never_pass_it(name):
    etas = list(islice(levels_by_name(name).sequence(2.5, 0.5), 2000))
    assert all(a <= b for a, b in pairwise(etas))
    assert etas[-1] <= 2.5
    assert etas[-1] == pytest.approx(2.5, rel=1e-3)
    assert etas[0] >= 1.5


def test_the_start_is_checked():
    with pytest.raises(InvalidInputError, match=r"eta0 must be in \[g\(x0\), level\] = \[1, 2\], got 0.5"):
        Harmonic(eta0=0.5).sequence(2.0, 1.0)
    with pytest.raises(InvalidInputError, match="eta0"):
        Geometric(eta0=3.0).sequence(2.0, 1.0)
    with pytest.raises(InvalidInputError, match=r"ratio must be in \(0, 1\)"):
        Geometric(ratio=1.0)
    assert next(Constant().sequence(2.0, 1.0)) == 2.0


def test_names():
    rule = Geometric(ratio=0.25)
    assert levels_by_name(rule) is rule
    with pytest.raises(InvalidInputError, match="did you mean 'harmonic'"):
        levels_by_name("harmonik")
