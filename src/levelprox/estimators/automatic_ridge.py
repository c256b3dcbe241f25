"""ridge="auto": no ridge where the data determine the coefficients of the chosen features, a small one where not.

Where the chosen features separate the classes, or some samples of them, the logistic loss falls as coefficients grow,
and has no minimiser. Where they nearly do, it has one far out that predicts other samples badly. The ridge is then that
of a standard normal prior on the coefficients of standardised features:

    mean loss + λ ‖s ∘ coef‖²,      λ = 1 / (2 n)

which is scikit-learn's default for LogisticRegression (C = 1). n is the number of samples; with unequal weights
(Σ w)² / Σ w². Features nearly separate the classes where the standard error of the coefficient of a standardised
feature is above 2: its odds ratio is then not known within a factor of e⁴.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from levelprox.losses import Logistic
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.refit import bound_on_gain

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

LARGEST_STANDARD_ERROR = 2.0  # of the coefficient of a standardised feature


def automatic_ridge(weight: Vector | None, n: int) -> float:
    """Return λ of n samples."""
    if weight is None:
        return 0.5 / n
    share = weight / weight.max()
    return 0.5 * float(np.sum(share**2)) / float(np.sum(share)) ** 2


def may_diverge(objective: Model) -> bool:
    """Return whether the loss may have no minimiser: a logistic loss without a ridge."""
    if isinstance(objective, MultinomialModel):
        return objective.ridge is None
    logistic = isinstance(objective, LinearModel | OneVsRestModel) and isinstance(objective.loss, Logistic)
    return logistic and objective.ridge is None


def largest_standard_error(objective: Model, x: Vector, features: Features, ridge: float) -> float:
    """Return the largest standard error of a coefficient of a fit; inf where the loss may have no minimiser.

    Standard errors are those of the inverse Hessian. A Newton step that changes no margin by more than 1 shows that
    there is a minimiser.

    Parameters
    ----------
    objective : LinearModel, OneVsRestModel or MultinomialModel
        Over the features of the fit.
    x : ndarray
        The fit.
    features : ndarray of int
        Places of the features whose standard errors are wanted.
    ridge : float
        λ of `automatic_ridge`: 2λ is one over the number of samples.
    """
    if not features.size:
        return 0.0
    z = objective.margins(x)
    hessian = objective.hessian_of(z, True)
    if not math.isfinite(bound_on_gain(objective, objective.value_of(z), z, hessian)):
        return math.inf
    variances = 2 * ridge * np.diagonal(np.linalg.pinv(hessian, hermitian=True)).reshape(-1, objective.width)
    return math.sqrt(float(np.max(variances[features])))
