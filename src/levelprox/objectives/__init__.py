"""What is minimised: a linear model, any ψ the user brings, or samples of one."""

from levelprox.objectives.base import Objective, Subgradients
from levelprox.objectives.curved import Curved
from levelprox.objectives.function import Function
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.quadratic import Quadratic
from levelprox.objectives.stochastic import Stochastic

__all__ = ["Curved", "Function", "LinearModel", "Objective", "Quadratic", "Stochastic", "Subgradients"]
