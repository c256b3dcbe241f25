"""What is minimised: a linear model, one of several classes, any ψ the user brings, or samples of one."""

from levelprox.objectives._base import Curved, Model, Objective, Subgradients
from levelprox.objectives.feature_scale import Coordinates
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.multinomial import MultinomialModel
from levelprox.objectives.one_vs_rest import OneVsRestModel
from levelprox.objectives.quadratic import Quadratic
from levelprox.objectives.stochastic import Stochastic
from levelprox.objectives.user import Function

__all__ = [
    "Coordinates",
    "Curved",
    "Function",
    "LinearModel",
    "Model",
    "MultinomialModel",
    "Objective",
    "OneVsRestModel",
    "Quadratic",
    "Stochastic",
    "Subgradients",
]
