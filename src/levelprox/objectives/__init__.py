"""What is minimised: a linear or a multinomial model, any ψ the user brings, or samples of one."""

from levelprox.objectives.base import Objective, Subgradients
from levelprox.objectives.curved import Curved
from levelprox.objectives.function import Function
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Model
from levelprox.objectives.multinomial import MultinomialModel
from levelprox.objectives.quadratic import Quadratic
from levelprox.objectives.stochastic import Stochastic

__all__ = [
    "Curved",
    "Function",
    "LinearModel",
    "Model",
    "MultinomialModel",
    "Objective",
    "Quadratic",
    "Stochastic",
    "Subgradients",
]
