"""What is minimised: a linear model, or any ψ the user brings."""

from levelprox.objectives.base import Objective, Subgradients
from levelprox.objectives.function import Function
from levelprox.objectives.linear_model import LinearModel

__all__ = ["Function", "LinearModel", "Objective", "Subgradients"]
