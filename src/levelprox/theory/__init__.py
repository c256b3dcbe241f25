"""The paper's bounds as functions of numbers and constraints; docs/theory.md has the statements and proofs."""

from levelprox.certificate.residual import common_unit, degenerate_distance, degenerate_level
from levelprox.theory.complexity import (
    Bounds,
    FiniteSum,
    acsa_bound,
    acsa_bound_paper,
    complexity_main,
    composite,
    corollary,
    finite_sum_convex,
    finite_sum_nonconvex,
)
from levelprox.theory.dual import dual_bound, eta0, eta0_scad, room, uniform_dual_bound, z, z_paper
from levelprox.theory.paper_settings import Parameters, convex, draw_k_hat, nonconvex, proximal

__all__ = [
    "Bounds",
    "FiniteSum",
    "Parameters",
    "acsa_bound",
    "acsa_bound_paper",
    "common_unit",
    "complexity_main",
    "composite",
    "convex",
    "corollary",
    "degenerate_distance",
    "degenerate_level",
    "draw_k_hat",
    "dual_bound",
    "eta0",
    "eta0_scad",
    "finite_sum_convex",
    "finite_sum_nonconvex",
    "nonconvex",
    "proximal",
    "room",
    "uniform_dual_bound",
    "z",
    "z_paper",
]
