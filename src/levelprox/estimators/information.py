"""Information criteria: −2 log-likelihood and a price for each degree of freedom.

    AIC  = −2 log L + 2 ν
    BIC  = −2 log L + ν log n
    EBIC = −2 log L + ν log n + 2 log C(d, k)           (Chen and Chen 2008, with γ = 1)

n is the sum of the weights, ν the number of coefficients and intercepts that are fitted, k of d features. L is the
likelihood whose −log is the loss; where the loss leaves a scale open, it is the most likely one:

    logistic, softmax, poisson    −2 log L = 2nψ
    squared                       normal errors:   n log ψ
    absolute, quantile            Laplace errors:  2n log ψ
    gamma                         of shape a:      −2n max_a [a log a − log Γ(a) − aψ + (a − 1) mean(log y)]

up to constants that do not depend on the fit. Other losses are no likelihoods.

All three are expansions about the most likely coefficients. Where the loss has no minimiser, as on separable data,
there are none, and a criterion is not defined (`comparable`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, gammaln

from levelprox.exceptions import InvalidInputError

CRITERIA = ("aic", "bic", "ebic")
_LIKELIHOODS = ("squared", "absolute", "quantile", "logistic", "poisson", "gamma")


def check_likelihood(criterion: str, loss: str) -> None:
    """Raise unless the loss is a likelihood."""
    if loss not in _LIKELIHOODS:
        raise InvalidInputError(
            f"criterion={criterion!r} needs a likelihood, and the loss {loss!r} is none; use criterion='cv', or one of "
            f"the losses {', '.join(_LIKELIHOODS)}"
        )


def comparable(diverging: NDArray[np.bool_], counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which fits a criterion compares: those whose loss has a minimiser.

    If all of these are without features, the smallest of the other fits is compared too, at the loss it reached:
    features that separate the samples are then all there is besides the model without features.

    Parameters
    ----------
    diverging : ndarray of bool of shape (m,)
        Which fits have no minimiser, in ascending order of their budgets.
    counts : ndarray of int of shape (m,)
        Features that each fit uses.
    """
    usable = ~diverging
    if not np.any(usable & (counts > 0)) and np.any(diverging):
        usable[np.argmax(diverging)] = True
    return usable


def deviance(loss: str, psi: float, n: float, least: float, mean_log: float = 0.0) -> float:
    """−2 log L of a fit, up to a constant.

    Parameters
    ----------
    loss : str
    psi : float
        ψ, the mean loss.
    n : float
        The sum of the weights.
    least : float
        What ψ is taken to be at least, where it is the scale of the errors: a perfect fit has none.
    mean_log : float
        The mean of log y, for gamma.
    """
    if loss == "squared":
        return n * math.log(max(psi, least))
    if loss in ("absolute", "quantile"):
        return 2 * n * math.log(max(psi, least))
    if loss != "gamma":
        return 2 * n * psi
    # The most likely shape a has log a − digamma(a) = spread; the left side falls from inf to 0.
    spread = max(psi - mean_log - 1, 1e-14)
    a = float(brentq(lambda log_a: log_a - digamma(math.exp(log_a)) - spread, -700, 35))
    shape = math.exp(a)
    return -2 * n * (shape * a - float(gammaln(shape)) - shape * psi + (shape - 1) * mean_log)


def price(criterion: str, freedom: int, n: float, k: int, d: int) -> float:
    """What a criterion adds to −2 log L for ν = `freedom`."""
    if criterion == "aic":
        return 2.0 * freedom
    cost = math.log(n) * freedom
    if criterion == "ebic":
        cost += 2 * float(gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1))
    return cost
