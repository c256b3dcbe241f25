"""The state of a run between two steps: all that is needed to go on from there, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from levelprox.certificate import Certificate
from levelprox.result import Iterate, Kinks, Record, Stage, Status

Vector = NDArray[np.float64]

#: ψ alone, for as long as the level holds by itself; with the level; by way of wider problems; and from their end on.
Phase = Literal["free", "level", "continuation", "last"]


@dataclass(frozen=True, eq=False)
class RunState:
    """What a run has come to.

    Attributes
    ----------
    phase : str
    done : int
        Steps of the phase.
    status : Status or None
        What the last step has earned, where that is final.
    at : Iterate
        The best point.
    g_begin : float
        g where the phase began: schedules of levels begin there.
    direct : Iterate or None
        What the direct start has reached, during a continuation and after it.
    after : (Stage, Iterate) or None
        The last stage of the continuation that is done.
    came_from : (ndarray, float) or None
        x^{k−1} and η_k of the last step.
    still : int
        Steps without any movement.
    counts : tuple of int
        Outer steps, inner steps, evaluations of ψ with its gradient, projections.
    history : tuple of Record
    stages : tuple of Stage
    seconds : float
        Wall-clock time so far.
    rng : dict
        The state of the generator of random numbers.
    """

    phase: Phase
    done: int
    status: Status | None
    at: Iterate
    g_begin: float
    direct: Iterate | None
    after: tuple[Stage, Iterate] | None
    came_from: tuple[Vector, float] | None
    still: int
    counts: tuple[int, int, int, int]
    history: tuple[Record, ...]
    stages: tuple[Stage, ...]
    seconds: float
    rng: dict[str, Any]


#: What the state of a run is made of.
KINDS: tuple[type, ...] = (RunState, Iterate, Kinks, Record, Stage, Status, Certificate)
