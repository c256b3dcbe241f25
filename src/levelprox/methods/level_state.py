"""The state of `LevelMethod`, as checkpoints contain it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from levelprox._typing import Vector
from levelprox.certificate import Certificate
from levelprox.result import CUT_SHORT_STOPS, Iterate, Kinks, Record, Stage, Status

Phase = Literal["free", "level", "continuation", "last"]


@dataclass(frozen=True, eq=False)
class RunState:
    """The state between two steps: all that is needed to continue from there, as plain data.

    Attributes
    ----------
    phase : str
    done : int
        Steps of the phase.
    status : Status or None
        The status that the last step has reached; None if steps follow.
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
    done: int = 0
    status: Status | None = None
    at: Iterate = field(kw_only=True)
    g_begin: float = 0.0
    direct: Iterate | None = None
    after: tuple[Stage, Iterate] | None = None
    came_from: tuple[Vector, float] | None = None
    still: int = 0
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    history: tuple[Record, ...] = ()
    stages: tuple[Stage, ...] = ()
    seconds: float = 0.0
    rng: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Iterate:
        """The best point, feasible."""
        return self.at

    @property
    def n_outer(self) -> int:
        """Outer steps."""
        return self.counts[0]

    @property
    def complete(self) -> bool:
        """False if Ctrl-C or a value that is not finite has cut the last step short."""
        return self.at.stop not in CUT_SHORT_STOPS

    def counted(self, work: Iterate, outer: int = 0, **changes: Any) -> RunState:
        """Return the state with the work of an iterate and so many outer steps added."""
        more = (outer, work.n_inner, work.n_grad, work.n_proj)
        counts = tuple(a + b for a, b in zip(self.counts, more, strict=True))
        return replace(self, counts=counts, done=self.done + outer, **changes)  # type: ignore[arg-type]  # four of them


#: What the state of a run consists of.
KINDS: tuple[type, ...] = (RunState, Iterate, Kinks, Record, Stage, Status, Certificate)
