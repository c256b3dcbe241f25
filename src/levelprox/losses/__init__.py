"""The losses ℓ(z, b), a file for each family. A new loss needs a class, a functor in the kernels and one line here."""

from __future__ import annotations

from levelprox.losses._base import LOSSES_BY_NAME, Loss, check_weights, loss_by_name
from levelprox.losses._base import vector as vector
from levelprox.losses.cauchy import Cauchy
from levelprox.losses.hinge import Hinge, SquaredHinge
from levelprox.losses.huber import Huber
from levelprox.losses.log_link import Gamma, LogLink, Poisson
from levelprox.losses.logistic import Logistic
from levelprox.losses.moreau import Smoothed
from levelprox.losses.multinomial import Multinomial
from levelprox.losses.quantile import Absolute, Quantile
from levelprox.losses.sigmoid import Sigmoid
from levelprox.losses.squared import Squared

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
