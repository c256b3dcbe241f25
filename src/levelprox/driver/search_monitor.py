"""A search for features under its limits: when to stop, whom to tell, what its end is called.

Whoever searches asks how many seconds are left, as often as there is a place to stop. There are none once the callback
has asked for an end; and a callback that has not heard anything for a while is told by that question.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from levelprox._runtime.deadline import TimeLimitError, end_now, finishing, interruptible, seconds_left, suspended
from levelprox._runtime.plurals import counted
from levelprox.exceptions import warn
from levelprox.objectives import Objective
from levelprox.result import Status
from levelprox.subset.result import Phase, SubsetRecord, Vector

Callback = Callable[[SubsetRecord], "bool | None"]

_HISTORY = 1000
_OFTEN = 0.1  # seconds between calls of the callback where nothing improves
_ACCEPTABLE = 100  # times tol: a stationarity that is not worth a warning
_RESOLUTION = 1e3 * 2.0**-52

_FAR, _SHOWS = 128.0, 1e-9  # times x; of ψ
_SEPARABLE = (
    "The data are separable: with these features the loss has no minimiser. It falls as coefficients grow, and only "
    "precision limits them: their sizes, and probabilities, are arbitrary. A ridge, fewer features, or a level of a "
    "constraint without a cap, such as l1, keep them finite."
)


def _falls_farther_out(objective: Objective, x: Vector) -> bool:
    """Whether ψ is lower far out along x by more than its last digits; for convex ψ that falls for ever, always.

    A bounded loss counts errors there: its fits are as far out as is of use.
    """
    if objective.convex_start is None:
        return True
    here, far = (objective.value_and_gradient(t * x)[0] for t in (1.0, _FAR))
    return here == 0 or here - far > _SHOWS * abs(here)


class Watch:
    """The limits of one search, and what is told of it.

    Parameters
    ----------
    seconds : float
        Of wall-clock time.
    max_iter : float
        How many exchanges may be taken.
    callback : callable, optional
        Called with a `SubsetRecord`; returning True stops the search.

    Attributes
    ----------
    phase : str
    done : float or None
        Which part of the phase is done, where that is known.
    step : int
        Exchanges taken.
    n_refits : int
    held_back : bool
        Whether there was an exchange to try when no more were allowed.
    raised : BaseException or None
        What the callback raised: it is no limit, whatever its kind.
    """

    def __init__(self, seconds: float = math.inf, max_iter: float = math.inf, callback: Callback | None = None) -> None:
        self.seconds, self.max_iter, self.callback = seconds, max_iter, callback
        self.began = self._told = time.monotonic()
        self.before = 0.0  # seconds of earlier calls that this one goes on from
        self.history: deque[SubsetRecord] = deque(maxlen=_HISTORY)
        self.phase: Phase = "forward"
        self.done: float | None = None
        self.step = self.n_refits = self._n_features = 0
        self._psi = math.inf
        self.held_back = self._stopped = False
        self.raised: BaseException | None = None
        self._arms = ExitStack()

    @property
    def elapsed(self) -> float:
        """Seconds since the search began, those of earlier calls included."""
        return self.before + time.monotonic() - self.began

    def left(self) -> float:
        """Seconds left; none once the callback has asked for an end."""
        if self.callback is not None and time.monotonic() - self._told >= _OFTEN:
            self._tell(self._record())
        return 0.0 if self._stopped else self._left()

    def _left(self) -> float:
        return min(self.seconds - (time.monotonic() - self.began), seconds_left())

    @property
    def cut_short(self) -> bool:
        """Whether a limit has held the search back."""
        return self.held_back or self._stopped or self._left() <= 0

    def arm(self) -> None:
        """Let compiled code raise `TimeLimitError`, a TimeoutError, where one step takes too long beyond the limit."""
        self._arms.enter_context(interruptible())

    def disarm(self) -> None:
        """Let compiled code run as long as it takes, for what is done at the end in any case."""
        self._arms.close()

    def enter(self, phase: Phase) -> None:
        """Another phase begins."""
        self.phase, self.done = phase, None
        self._tell(self._record())

    def improved(self, psi: float, n_features: int) -> None:
        """There is a better fit than any before; one that only is as good, but better fitted, is not worth a word."""
        if psi >= self._psi:
            return
        self._psi, self._n_features = psi, n_features
        self.history.append(self._record())
        self._tell(self.history[-1])

    def may_exchange(self) -> bool:
        """Whether one more exchange may be taken; where not, that is remembered."""
        self.held_back |= self.step >= self.max_iter
        return not self.held_back

    def status(self, ended: Status) -> Status:
        """What the end is called: the callback's and `max_iter`'s before that of a search which just ended."""
        if self._stopped and ended in (Status.SOLVED, Status.TIME_LIMIT):
            return Status.CALLBACK_STOP
        return Status.MAX_ITER if self.held_back and ended is Status.SOLVED else ended

    def recomputed(
        self, ended: Status, psi: float, figures: Callable[[], tuple[float, float]] | None
    ) -> tuple[Status, float, float, str]:
        """Recompute ψ and the stationarity of the answer, as far as there is time.

        Parameters
        ----------
        ended : Status
        psi : float
            Of the search.
        figures : callable, optional
            Returns ψ and the stationarity.

        Returns
        -------
        ended, psi, stationarity
            The status is "interrupted" after Ctrl-C; the stationarity is inf where it was not computed.
        unknown : str
            What to add to the message.
        """
        unknown = "; there was no time to recompute its figures"
        if figures is None:
            return ended, psi, math.inf, unknown
        try:
            with finishing():
                return ended, *figures(), ""
        except TimeLimitError:
            return ended, psi, math.inf, unknown
        except KeyboardInterrupt:
            end_now()
            return Status.INTERRUPTED, psi, math.inf, unknown

    def conclude(
        self, ended: Status, figures: str, objective: Objective, x: Vector, stationarity: float, tol: float
    ) -> tuple[Status, str]:
        """What the end is called, and in a sentence; a warning where it is not what was asked for."""
        status = self.status(ended)
        if ended is Status.INTERRUPTED:
            end_now()
        try:
            with finishing():
                separated = objective.is_separated(x) and _falls_farther_out(objective, x)
        except TimeLimitError:
            separated, figures = False, f"{figures}; whether the data are separable was not examined"
        if separated and status is Status.SOLVED:
            status = Status.DIVERGING
        elif status is Status.SOLVED and stationarity > max(_ACCEPTABLE * tol, _RESOLUTION):
            status = Status.SOLVED_INACCURATE
        message = {
            Status.SOLVED: f"Solved: {figures}.",
            Status.SOLVED_INACCURATE: f"Nearly solved: {figures}; stationarity {stationarity:.1e} > tol {tol:.1e}. "
            f"Raise tol. {objective.advice()}".rstrip(),
            Status.DIVERGING: f"Diverging: {figures}.",
            Status.MAX_ITER: f"Stopped after {counted(self.step, 'swap')}, max_iter: {figures}. Raise max_iter.",
            Status.TIME_LIMIT: f"Stopped after time_limit {self.seconds:g} s: {figures}. Raise time_limit.",
            Status.CALLBACK_STOP: f"Stopped by the callback: {figures}.",
            Status.INTERRUPTED: f"Interrupted: {figures}.",
        }[status]
        if separated:
            message = f"{message} {_SEPARABLE}"
        if separated or status not in (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED):
            warn(message)
        return status, message

    def as_state(self) -> dict[str, Any]:
        """All that has been told, as plain data."""
        return {
            "step": self.step,
            "n_refits": self.n_refits,
            "best": (self._psi, self._n_features),
            "history": tuple(self.history),
            "seconds": self.elapsed,
        }

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `as_state` gave; the seconds before do not count as this call's, but `elapsed` has them."""
        self.step, self.n_refits = state["step"], state["n_refits"]
        self._psi, self._n_features = state["best"]
        self.history = deque(state["history"], maxlen=_HISTORY)
        self.before = state["seconds"]

    def _record(self) -> SubsetRecord:
        return SubsetRecord(self.step, self.phase, self._psi, self._n_features, self.n_refits, self.elapsed, self.done)

    def _tell(self, record: SubsetRecord) -> None:
        if self.callback is None or self._stopped:
            return
        try:
            with suspended():
                self._stopped = bool(self.callback(record))
        except BaseException as error:
            self.raised = error
            raise
        self._told = time.monotonic()
