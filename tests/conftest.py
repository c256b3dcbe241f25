"""What holds for every solve of the suite, whatever the test is about."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from levelprox import _kernels
from levelprox.run import Run

# Several test processes with several BLAS threads each would only wait for one another.
threadpool_limits(1)

# The same examples on every run, so that a change fails for its own faults only; new ones in the long runs.
settings.register_profile("repeatable", derandomize=True, deadline=None)
if not os.environ.get("LEVELPROX_LONG_TESTS"):
    settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def every_step_is_feasible_and_no_worse(monkeypatch):
    """g(x^k) <= η_k <= η, signs hold, x is finite, and ψ does not rise, at every outer step."""
    judge = Run._judge

    def watched(self, eta_k, last, iterate):
        assert np.all(np.isfinite(iterate.x))
        assert eta_k <= self.problem.level
        assert self.problem.g(iterate.x) <= eta_k
        assert self.problem.is_feasible(iterate.x)
        if self.subsolver.monotone and not self.subsolver.is_random(self.problem.objective):
            assert iterate.psi <= last.psi + 8 * np.finfo(float).eps * abs(last.psi)
        return judge(self, eta_k, last, iterate)

    monkeypatch.setattr(Run, "_judge", watched)


@pytest.fixture
def instruction_sets() -> Iterator[list[str]]:
    """Names of the vector loops this processor runs; the choice is restored afterwards."""
    names = []
    for name in ("baseline", "avx2", "avx512"):
        try:
            _kernels.use_simd(name)
        except ValueError:
            continue
        assert _kernels.simd_name() == name
        names.append(name)
    yield names
    _kernels.use_simd("auto")
