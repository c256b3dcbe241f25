"""One test per statement of the paper, named after it, and one planted fault that it catches.

A statement is a function check_… that raises AssertionError with both sides of what does not hold. Expectations are
means over seeds, given three standard errors. docs/theory.md says which statement is where.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from levelprox import _kernels, theory
from levelprox.constraints import MCP, SCAD, Constraint
from levelprox.methods import lcpp
from levelprox.methods.lcpp import Geometric, Harmonic, linearise
from levelprox.methods.subsolvers import Spectral, Subproblem
from levelprox.methods.subsolvers import _minibatch as minibatch
from tests.support import ROOT
from tests.support import paper_complexity as complexity
from tests.support import paper_optimality as optimality


def test_proposition_mfcq_necessary_condition():
    optimality.check_proposition_mfcq_necessary_condition()


def test_proposition_kkt_subseq():
    optimality.check_proposition_kkt_subseq()


@pytest.mark.parametrize("loss", ["squared", "cauchy"])
def test_proposition_square_sum_2(loss):
    optimality.check_proposition_square_sum_2([loss])


@pytest.mark.parametrize("loss", ["squared", "cauchy"])
def test_theorem_conv_asym_kkt(loss):
    optimality.check_theorem_conv_asym_kkt([loss])


def test_theorem_bound_dual_mfcq():
    optimality.check_theorem_bound_dual_mfcq()


def test_lemma_bound_dual_value():
    optimality.check_lemma_bound_dual_value()


def test_lemma_dual_bound():
    optimality.check_lemma_dual_bound()


def test_theorem_dual_bd_value():
    optimality.check_theorem_dual_bd_value()


def test_theorem_mcp_y_bd_val():
    optimality.check_theorem_mcp_y_bd_val()


def test_similar_results_for_the_other_functions():
    optimality.check_similar_results()


def test_proposition_scad_eta_setting():
    optimality.check_proposition_scad_eta_setting()


def test_proposition_composite_2():
    complexity.check_proposition_composite_2()


def test_theorem_complexity_main():
    complexity.check_theorem_complexity_main()


def test_proposition_acsa():
    complexity.check_proposition_acsa()


def test_corollary_unified_complexity_main():
    complexity.check_corollary_unified_complexity_main()


def test_corollary_unified_complexity_convex():
    complexity.check_corollary_unified_complexity_convex()


def test_remark_finite_sum():
    complexity.check_remark_finite_sum()


def test_theorem_prox_oracle():
    optimality.check_theorem_prox_oracle()


def slope_without_h(patch):
    patch.setattr(Constraint, "slope", lambda self, t: np.full_like(np.asarray(t, float), self.lam))


def u_flipped(patch):
    patch.setattr(lcpp, "linearise", lambda *args: (s := linearise(*args)) and replace(s, u=-s.u))


def u_not_divided_by_lambda(patch):
    patch.setattr(lcpp, "linearise", lambda *args: (s := linearise(*args)) and replace(s, u=s.lam * s.u))


def tau_without_the_sum(patch):
    """τ = (η_k − g(x))/λ: x^{k−1} is no longer in the set."""
    radius = lcpp._radius

    def smaller(constraint, at, support, price, level, weights):
        return radius(constraint, at, support, 0 * price, level, weights)

    patch.setattr(lcpp, "_radius", smaller)


def multiplier_not_divided_by_lambda(patch):
    solve = Spectral.solve

    def unscaled(self, subproblem, *args, **kwargs):
        end = solve(self, subproblem, *args, **kwargs)
        return replace(end, multiplier=end.multiplier * subproblem.surrogate.lam)

    patch.setattr(Spectral, "solve", unscaled)


def delta_zero(patch):
    patch.setattr(Harmonic, "at", lambda self, k, eta0, level: eta0)


def levels_stay_below(patch):
    patch.setattr(Geometric, "at", lambda self, k, eta0, level: eta0 + 0.9 * (level - eta0) * (1 - self.ratio**k))


def delta_too_slow(patch):
    patch.setattr(Harmonic, "at", lambda self, k, eta0, level: level - (level - eta0) / math.sqrt(k + 1))


def gamma_dropped(patch):
    patch.setattr(lcpp, "Subproblem", lambda psi, g_k, x, gamma, *more: Subproblem(psi, g_k, x, 0.01 * gamma, *more))


def room_with_lambda_for_the_slope(patch):
    def too_large(constraint, x, eta_k, weights=None):
        return eta_k - constraint.value(x, weights) + constraint.lam * float(np.sum(np.abs(x)))

    patch.setattr(theory.dual, "room", too_large)


def scad_without_its_bend(patch):
    patch.setitem(theory.dual.Z_PAPER, SCAD, lambda c, a: a)


def mcp_with_theta_doubled(patch):
    patch.setitem(theory.dual.Z_PAPER, MCP, lambda c, a: a * np.sqrt(1 - a / (2 * c.cap)))


def exp_without_its_cap(patch):
    patch.setattr(theory.dual, "cell", lambda constraint, alpha: (0 * alpha, np.minimum(alpha, 0.5 * constraint.cap)))


def eta0_a_whole_number_of_caps(patch):
    patch.setattr(theory, "eta0_scad", lambda c, level: c.cap * (level // c.cap))


def acsa_without_l(patch):
    settings = _kernels.AcsaSettings
    patch.setattr(
        _kernels, "AcsaSettings", lambda steps, m, _, gamma, seconds: settings(steps, m, gamma, gamma, seconds)
    )


def one_inner_step(patch):
    patch.setattr(theory.paper_settings, "_steps", lambda *args: 1.0)


def inner_steps_without_k(patch):
    patch.setattr(theory.paper_settings, "_steps", lambda L, M, sigma, gamma, rho, K: 2 * math.sqrt((L + gamma) / rho))


def svrg_without_its_snapshot(patch):
    take_steps = minibatch.take_steps
    patch.setattr(minibatch, "take_steps", lambda *args: take_steps(*args[:7]))


def projection_with_u_flipped(patch):
    kernel = _kernels.project_rows
    patch.setattr(_kernels, "project_rows", lambda v, u, *rest: kernel(v, None if u is None else -u, *rest))


FAULTS = [
    (optimality.check_proposition_mfcq_necessary_condition, slope_without_h),
    (optimality.check_proposition_kkt_subseq, delta_zero),
    (optimality.check_proposition_square_sum_2, tau_without_the_sum),
    (optimality.check_theorem_conv_asym_kkt, u_flipped),
    (optimality.check_theorem_conv_asym_kkt, levels_stay_below),
    (optimality.check_theorem_bound_dual_mfcq, multiplier_not_divided_by_lambda),
    (optimality.check_lemma_bound_dual_value, u_not_divided_by_lambda),
    (optimality.check_lemma_dual_bound, room_with_lambda_for_the_slope),
    (optimality.check_theorem_dual_bd_value, scad_without_its_bend),
    (optimality.check_theorem_mcp_y_bd_val, mcp_with_theta_doubled),
    (optimality.check_similar_results, exp_without_its_cap),
    (optimality.check_proposition_scad_eta_setting, eta0_a_whole_number_of_caps),
    (complexity.check_proposition_composite_2, gamma_dropped),
    (complexity.check_theorem_complexity_main, delta_too_slow),
    (complexity.check_proposition_acsa, acsa_without_l),
    (complexity.check_corollary_unified_complexity_main, one_inner_step),
    (complexity.check_corollary_unified_complexity_convex, inner_steps_without_k),
    (complexity.check_remark_finite_sum, svrg_without_its_snapshot),
    (optimality.check_theorem_prox_oracle, projection_with_u_flipped),
]


@pytest.mark.parametrize(("check", "fault"), FAULTS, ids=lambda function: function.__name__)
def test_a_planted_fault_is_caught(check, fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        check()
    print(caught.value)


def test_every_statement_has_its_fault():
    checks = {f for of in (optimality, complexity) for name, f in vars(of).items() if name.startswith("check_")}
    assert {check for check, _ in FAULTS} == checks


def test_the_documentation_names_every_test():
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    named = set(re.findall(r"test_(?:proposition|theorem|lemma|corollary|remark|similar)_\w+", text))
    there = {name for name in globals() if name.startswith("test_")}
    assert named == {name for name in there if not name.startswith(("test_a_", "test_every_", "test_the_"))}
    for function in re.findall(r"`theory\.(\w+)`", text):
        assert hasattr(theory, function), function
