"""What holds for every solve of the suite, whatever the test is about."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox.run import Run


@pytest.fixture(autouse=True)
def every_step_is_feasible_and_no_worse(monkeypatch):
    """g(x^k) <= η_k <= η, signs hold, x is finite, and ψ does not rise, at every outer step."""
    judge = Run._judge

    def watched(self, eta_k, last, iterate):
        assert np.all(np.isfinite(iterate.x))
        assert eta_k <= self.problem.level
        assert self.problem.g(iterate.x) <= eta_k
        assert self.problem.is_feasible(iterate.x)
        assert iterate.psi <= last.psi + 8 * np.finfo(float).eps * abs(last.psi)
        return judge(self, eta_k, last, iterate)

    monkeypatch.setattr(Run, "_judge", watched)
