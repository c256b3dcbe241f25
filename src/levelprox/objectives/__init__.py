"""Objectives ψ: linear models, models of several classes, functions of the user, and sampled functions."""

from levelprox.objectives._base import Curved, Objective, Subgradients
from levelprox.objectives.feature_scale import Coordinates
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.model import Model
from levelprox.objectives.multinomial import MultinomialModel
from levelprox.objectives.one_vs_rest import OneVsRestModel
from levelprox.objectives.quadratic import Quadratic
from levelprox.objectives.user import Function, Stochastic

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

#: Deprecated name → its name in `levelprox.backends`.
_RENAMED = {"Asked": "RemoteObjective", "ShardedModel": "PartitionedModel"}


def __getattr__(name: str) -> object:
    """Return a class under its name of version 0.1, with a warning (PEP 562)."""
    if name not in _RENAMED:
        raise AttributeError(f"module 'levelprox.objectives' has no attribute {name!r}")
    from importlib import import_module

    from levelprox.exceptions import warn

    warn(f"objectives.{name} is deprecated: it is levelprox.backends.{_RENAMED[name]}", DeprecationWarning)
    return getattr(import_module("levelprox.backends"), _RENAMED[name])
