"""The losses ℓ(z, b), a file for each kind of targets.

A new loss needs a class, a functor in the kernels and one line here.
"""

from __future__ import annotations

from levelprox.losses._base import LOSSES_BY_NAME, Loss, check_weights, loss_by_name
from levelprox.losses._base import relative_weights as relative_weights
from levelprox.losses._base import vector as vector
from levelprox.losses.classification import Hinge, Logistic, Multinomial, Sigmoid, SquaredHinge
from levelprox.losses.log_link import Gamma, LogLink, Poisson
from levelprox.losses.moreau import Smoothed
from levelprox.losses.regression import Absolute, Cauchy, Huber, Quantile, Squared

__all__ = [
    "LOSS_TYPES",
    "Absolute",
    "Cauchy",
    "Gamma",
    "Hinge",
    "Huber",
    "LogLink",
    "Logistic",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Sigmoid",
    "Smoothed",
    "Squared",
    "SquaredHinge",
    "check_weights",
    "loss_by_name",
]

LOSS_TYPES: tuple[type[Loss], ...] = (
    Squared,
    Logistic,
    Huber,
    Absolute,
    Quantile,
    Hinge,
    SquaredHinge,
    Cauchy,
    Sigmoid,
    Poisson,
    Gamma,
)

LOSSES_BY_NAME.update({kind.name: kind for kind in LOSS_TYPES})
