"""What the paper prints: settings, grids and numbers of its Experiments section and appendix.

Where its text and its notes on slips differ (the grid of Table 4: η = 10^k d with k ≤ −1), the intended value is used.
"""

from __future__ import annotations

from dataclasses import dataclass

#: MCP of the comparison with DCCP, and of the comparison of errors.
LAM, THETA_SPEED, THETA_ERROR = 2.0, 0.25, 5.0
#: Iterations of every method in the comparison of errors.
MOST_ITERATIONS = 2000


@dataclass(frozen=True)
class Size:
    """A row of Table 3."""

    train: int
    test: int
    dimension: int
    nonzeros: float  #: per cent
    kind: str  #: C or R


TABLE_3 = {
    "real-sim": Size(50347, 21962, 20958, 0.25, "C"),
    "rcv1.binary": Size(20242, 677399, 47236, 0.16, "C"),
    "mnist": Size(60000, 10000, 784, 19.12, "C"),
    "gisette": Size(6000, 1000, 5000, 99.10, "C"),
    "E2006-tfidf": Size(16087, 3308, 150360, 0.83, "R"),
    "YearPredictionMSD": Size(463715, 51630, 90, 100.0, "R"),
}

#: Figure 2: η/d, and γ.
DCCP_LEVELS = {"mnist": 0.1, "real-sim": 0.001, "rcv1.binary": 0.05, "gisette": 0.05}
GAMMA = {"mnist": 1e-4, "real-sim": 1e-4, "rcv1.binary": 1e-4, "gisette": 1e-5}
INNER_STEPS, OUTER_STEPS = 10, 1000

#: Table 4: error in per cent, mean and standard deviation.
TABLE_4 = {
    "gisette": {"GIST": (2.32, 0.04), "LCPP": (1.64, 0.14), "Lasso": (1.84, 0.05)},
    "mnist": {"GIST": (2.57, 0.01), "LCPP": (2.52, 0.02), "Lasso": (2.56, 0.00)},
    "rcv1.binary": {"GIST": (6.39, 0.03), "LCPP": (4.90, 0.14), "Lasso": (4.52, 0.01)},
    "real-sim": {"GIST": (3.50, 0.04), "LCPP": (3.03, 0.00), "Lasso": (3.10, 0.00)},
}
THETAS = (100.0, 10.0, 5.0, 1.0, 0.1, 0.01, 0.001)
ETAS = tuple(10**k for k in (-3, -2.5, -2, -1.5, -1))  #: of d
GIST_LAMS = (10.0, 1.0, 0.1)  #: of 1/n
LASSO_POWERS = tuple(1 + 2 * k / 3 for k in range(10))  #: C = C_0 10^s
