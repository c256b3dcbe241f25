"""Subsolvers, which solve the convex subproblem of a step."""

from __future__ import annotations

from levelprox._validation import did_you_mean
from levelprox.exceptions import InvalidInputError
from levelprox.methods.subsolvers._base import Subproblem, Subsolver, Surrogate
from levelprox.methods.subsolvers.accelerated import ACSA, Nesterov
from levelprox.methods.subsolvers.newton import Newton
from levelprox.methods.subsolvers.spectral import Smoothing, Spectral
from levelprox.methods.subsolvers.stochastic import SGD, SVRG
from levelprox.objectives import Objective

#: Subsolvers by name; "auto" chooses the first that supports the objective.
SUBSOLVERS: dict[str, type[Subsolver]] = {
    kind.name: kind for kind in (Newton, Spectral, Smoothing, Nesterov, ACSA, SGD, SVRG)
}


def choose(subsolver: str | Subsolver, objective: Objective) -> Subsolver:
    """Return the subsolver to use for an objective.

    Parameters
    ----------
    subsolver : str or Subsolver
        "auto", a name from `SUBSOLVERS`, or a subsolver.
    objective : Objective
        ψ.

    Returns
    -------
    Subsolver
        The subsolver.

    Raises
    ------
    InvalidInputError
        If the subsolver does not support the objective. The message names those that do.

    Examples
    --------
    >>> from levelprox import LinearModel, subsolvers
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> subsolvers.choose("auto", model)
    Newton(max_steps=1, accuracy=0.01)
    """
    if isinstance(subsolver, Subsolver):
        chosen: Subsolver | None = subsolver
    elif subsolver == "auto":
        chosen = next((kind() for kind in SUBSOLVERS.values() if kind.can_take(objective)), None)
    elif isinstance(subsolver, str) and subsolver in SUBSOLVERS:
        chosen = SUBSOLVERS[subsolver]()
    else:
        hint = did_you_mean(subsolver, SUBSOLVERS)
        names = ", ".join(["auto", *SUBSOLVERS])
        raise InvalidInputError(f"subsolver must be one of {names} or a Subsolver object, got {subsolver!r}{hint}")
    if chosen is None:
        needs = "; ".join(f"{name!r} needs {kind.needs}" for name, kind in SUBSOLVERS.items())
        raise InvalidInputError(f"no subsolver can take this objective: {needs}")
    if not chosen.can_take(objective):
        able = [name for name, kind in SUBSOLVERS.items() if kind.can_take(objective)]
        others = f"subsolvers that can take it: {', '.join(able)}" if able else "no subsolver can take it"
        raise InvalidInputError(f"subsolver {chosen.name!r} needs {chosen.needs}; {others}")
    return chosen


__all__ = [
    "ACSA",
    "SGD",
    "SUBSOLVERS",
    "SVRG",
    "Nesterov",
    "Newton",
    "Smoothing",
    "Spectral",
    "Subproblem",
    "Subsolver",
    "Surrogate",
    "choose",
]
