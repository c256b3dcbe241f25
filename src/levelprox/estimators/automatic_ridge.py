"""ridge="auto": no ridge where the data determine the coefficients of the chosen features, a small one where not.

Where the chosen features separate the classes, or some samples of them, the logistic loss falls as coefficients grow,
and has no minimiser. Where they nearly do, it has one far out that predicts other samples badly. The ridge is then that
of a standard normal prior on the coefficients of standardised features:

    mean loss + λ ‖s ∘ coef‖²,      λ = 1 / (2 n)

which is scikit-learn's default for LogisticRegression (C = 1). n is the sum of the weights, as a weight of 2 is a
repeated sample, or the number of samples where that is more, as of weights that add up to 1. Features nearly separate
the classes where the standard error of the coefficient of a combination of them with variance 1 is above 2: its odds
ratio is then not known within a factor of e⁴.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from levelprox.losses import Logistic
from levelprox.objectives import Asked, Model, MultinomialModel
from levelprox.objectives.curved import Curved

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Features = NDArray[np.intp]

LARGEST_STANDARD_ERROR = 2.0  # of the coefficient of a combination of features with variance 1
_SINGULAR = 1e-12  # eigenvalue of a Hessian with a unit diagonal


def automatic_ridge(n: int, total: float | None) -> float:
    """Return λ of n samples whose weights, where they have some, add up to `total`."""
    return 0.5 / (n if total is None else max(n, total))


def may_diverge(objective: Model | Asked) -> bool:
    """Return whether the loss may have no minimiser: a logistic loss without a ridge."""
    if isinstance(objective, Asked):
        return objective.strength is None and isinstance(objective.loss, Logistic)
    logistic = isinstance(objective, MultinomialModel) or isinstance(getattr(objective, "loss", None), Logistic)
    return logistic and getattr(objective, "ridge", None) is None


def largest_standard_error(objective: Curved, x: Vector, wanted: Features, ridge: float) -> float:
    """Return the largest standard error of the coefficient of a combination of features that has variance 1.

    With the covariance G of the columns and the block K of the inverse Hessian of the sum of losses it is the root of
    the largest eigenvalue of KG: it depends neither on units nor on correlations of features, but on how little
    curvature the losses have left. inf where the Hessian is singular.

    Parameters
    ----------
    objective : Curved
        A logistic loss over the features of the fit, perhaps of several classes.
    x : ndarray
        The fit.
    wanted : ndarray of int
        Places of the features that may have a ridge.
    ridge : float
        λ of `automatic_ridge`: 2λ is one over the number of samples.
    """
    if not wanted.size:
        return 0.0
    width, m = objective.width, x.size // objective.width
    covariance = _covariance(objective, m, wanted)
    hessian = objective.hessian_of(objective.margins(x), True)
    contrasts = np.eye(m * width)
    if objective.only_contrasts:  # ψ sees only differences between classes
        contrasts = np.kron(np.eye(m), np.linalg.qr(np.eye(width) - 1 / width)[0][:, : width - 1])
        hessian = contrasts.T @ hessian @ contrasts
    diagonal = np.diagonal(hessian)
    if covariance is None or not (np.all(np.isfinite(hessian)) and np.all(diagonal > 0)):
        return math.inf
    unit = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    if values[0] <= _SINGULAR:
        return math.inf
    root = (contrasts @ (unit[:, None] * vectors / np.sqrt(values))).reshape(m, width, -1)
    largest = 0.0
    for one in root.swapaxes(0, 1):
        inverse = one[wanted] @ one[wanted].T
        largest = max(largest, float(np.max(np.real(np.linalg.eigvals(inverse @ covariance)))))
    return math.sqrt(2 * ridge * largest)


def _covariance(objective: Curved, m: int, wanted: Features) -> Matrix | None:
    """Return the covariance of some columns, from the Hessian at 0, where all probabilities are alike."""
    width = objective.width
    zero = objective.hessian_of(objective.margins(np.zeros(m * width)), True).reshape(m, width, m, width)[:, 0, :, 0]
    gram = zero / ((width - 1) / width**2 if objective.only_contrasts else 0.25)
    ones = objective.exempt
    if ones.size:
        gram = gram - np.outer(gram[:, ones[0]], gram[ones[0]]) / gram[ones[0], ones[0]]
    return gram[np.ix_(wanted, wanted)] if np.all(np.isfinite(gram)) else None
