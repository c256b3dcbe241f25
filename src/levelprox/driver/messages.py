"""The sentence that a user reads at the end of a run: one table for all methods."""

from __future__ import annotations

from levelprox.result import Ending, Status

_OPENINGS = {
    Status.SOLVED: "Solved{steps}",
    Status.SOLVED_INACCURATE: "Nearly solved{steps}",
    Status.MAX_ITER: "Stopped{steps}, max_iter",
    Status.TIME_LIMIT: "Stopped{steps}, time_limit {seconds:g} s",
    Status.INTERRUPTED: "Interrupted{steps}",
    Status.CALLBACK_STOP: "Stopped by the callback{steps}",
    Status.STALLED: "Stalled{steps}",
    Status.DIVERGING: "Diverging{steps}",
}
#: Statuses that need no warning: the run ended as requested.
_REQUESTED = (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED)


def warns(ending: Ending) -> bool:
    """Return whether the end of a run needs a warning."""
    return ending.warns or ending.status not in _REQUESTED


def sentence(ending: Ending, seconds: float) -> str:
    """Return the message of a result.

    Parameters
    ----------
    ending : Ending
    seconds : float
        The time limit.
    """
    steps = f" {ending.steps}" if ending.steps else ""
    opening = _OPENINGS[ending.status].format(steps=steps, seconds=seconds)
    if ending.opening:
        opening = ending.opening + steps
    elif ending.status is Status.TIME_LIMIT and not steps:
        opening = f"Stopped after time_limit {seconds:g} s"
    parts = [f"{opening}: {ending.figures}.", ending.remedy, *ending.notes]
    if warns(ending):
        parts.append(ending.advice)
    return " ".join(filter(None, parts))
