"""What a search for at most k features returns: the fit, what is shown of it, and how the search went."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

from levelprox._runtime.deadline import seconds_left
from levelprox._runtime.plurals import counted
from levelprox._typing import Features, Vector
from levelprox.result import Context, Progress, Status, Stop

Phase = Literal["forward", "continuation", "exchanges", "proof"]
Value = TypeVar("Value")

_HISTORY_LENGTH = 1000


@dataclass(frozen=True)
class Exchanges:
    """How far it is shown that no swap of one feature for another lowers ψ.

    Attributes
    ----------
    examined : int
        Swaps for which it is: ruled out by a bound, or tried.
    total : int
        All there are: features in the set times features outside.
    local : bool
        Whether ψ is not convex: then sets were refitted from a few starts, and may have a lower minimum elsewhere.
    within_budget : bool
        Whether only those swaps count whose sets cost no more than a budget.
    """

    examined: int
    total: int
    local: bool = False
    within_budget: bool = False

    @property
    def proved(self) -> bool:
        """Whether no swap at all lowers ψ by more than 1e-10 of it, or its rounding.

        Where ψ is not convex (`local`) this is a statement about local refits.
        """
        return self.examined == self.total

    def __str__(self) -> str:
        within = " within the budget" if self.within_budget else ""
        if not self.total:
            return f"there is no swap of one feature for another{within}"
        if not self.examined:
            return f"swaps of one feature for another{within} were not examined"
        which = f"any of the {self.examined} examined of {self.total} swaps" if not self.proved else "the only swap"
        if self.proved and self.total > 1:
            which = f"any of the {self.total} swaps"
        return f"not improved by {'local refits of ' if self.local else ''}{which} of one feature for another{within}"


@dataclass(frozen=True)
class Additions:
    """Of how many features it is shown that none gains more than the best single addition that was found.

    Attributes
    ----------
    examined : int
        Features for which it is: ruled out by a bound, or refitted.
    total : int
        All features outside the set.
    """

    examined: int
    total: int

    @property
    def proved(self) -> bool:
        """Whether no feature at all gains more."""
        return self.examined == self.total


@dataclass(frozen=True)
class SubsetCertificate:
    """What is shown of a set of at most k features, in figures.

    Attributes
    ----------
    psi : float
        ψ(x), recomputed from the data.
    n_nonzero : int
        Features that count and are not zero.
    k : int
        How many there may be.
    stationarity : float
        dist∞(0, ∂ψ) over the features of the fit, relative to the null fit's; inf where a limit left no time for it.
    exchanges : Exchanges
        What is shown of swaps.
    multiplier : float
        What one more feature would gain: ψ(x) less ψ refitted with the best single addition that was found; nan where a
        limit ended the search before that was looked for.
    addition : int or None
        That feature; None where there is none that gains.
    additions : Additions or None
        How many features were examined for it; None where that is not recorded.
    spent, budget : float or None
        What the features cost, and what they may cost together; None where features have no costs. Then swaps and
        additions are those that the budget allows.
    addition_name : str or None
        What that feature is called, where the data have names.
    """

    psi: float
    n_nonzero: int
    k: int
    stationarity: float
    exchanges: Exchanges
    multiplier: float
    addition: int | None
    additions: Additions | None = None
    spent: float | None = None
    budget: float | None = None
    addition_name: str | None = None

    @property
    def examined(self) -> bool:
        """Whether there was time to compute the stationarity; where not, it is inf."""
        return not math.isinf(self.stationarity)

    def as_dict(self) -> dict[str, Any]:
        """Return every figure, for JSON."""
        figures = {**asdict(self), "exchanges": {**asdict(self.exchanges), "proved": self.exchanges.proved}}
        if self.additions is not None:
            figures["additions"]["proved"] = self.additions.proved
        return figures

    @property
    def gain(self) -> str:
        """What one more feature gains, in words."""
        if math.isnan(self.multiplier):
            return "not examined"
        if self.budget is not None and self.additions is not None and not self.additions.total:
            return "nothing: the budget allows no further feature"
        name = f"feature {self.addition}" if self.addition_name is None else repr(self.addition_name)
        gain = "nothing" if self.addition is None else f"{self.multiplier:.6g}, {name}"
        gain += " by local refits" if self.exchanges.local else ""
        if self.additions is None or self.additions.proved:
            return gain
        return f"{gain} ({self.additions.examined} of {counted(self.additions.total, 'feature')} examined)"

    def __str__(self) -> str:
        rows = [
            ("loss", f"{self.psi:.10g}"),
            ("features ≤ k", f"{self.n_nonzero} ≤ {self.k}"),
            *([] if self.budget is None else [("cost ≤ budget", f"{self.spent:.10g} ≤ {self.budget:.10g}")]),
            ("stationarity (scaled)", f"{self.stationarity:.2e}" if self.examined else "not known: there was no time"),
            ("swaps", str(self.exchanges)),
            ("one more would gain", self.gain),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def with_name(certificate: Any, names: Any) -> Any:
    """Return a certificate that calls features by these names; as it is where there are none, or nothing to name."""
    if not isinstance(certificate, SubsetCertificate):
        return certificate
    j = certificate.addition
    return replace(certificate, addition_name=None if j is None or names is None else str(names[j]))


@dataclass(frozen=True)
class SubsetRecord:
    """How far a search has come.

    Attributes
    ----------
    step : int
        Swaps taken so far: what `max_iter` bounds.
    phase : {"forward", "continuation", "exchanges", "proof"}
        Forward selection; a continuation in the threshold; swaps for as long as ψ falls; what is left to show of
        swaps, and the best addition.
    psi : float
        ψ of the best fit so far.
    n_features : int
        Features of that fit that count.
    n_refits : int
        Fits over a few features so far.
    seconds : float
        Wall-clock time since the search began.
    done : float or None
        Which part of the phase is done, where that is known.
    """

    step: int
    phase: Phase
    psi: float
    n_features: int
    n_refits: int
    seconds: float
    done: float | None = None


@dataclass(frozen=True, eq=False)
class Subset:
    """The best set of at most k features that was found, and the fit over it.

    Attributes
    ----------
    x : ndarray of shape (d,)
        All coefficients; besides those of features that are kept in any case, at most k features are not zero.
    psi : float
        ψ(x).
    support : ndarray of int
        The features that count and are not zero.
    k : int
        What was asked for.
    multiplier : float
        What one more feature would gain: ψ(x) less ψ refitted with the best single addition that was found; nan where a
        limit ended the search before that was looked for.
    addition : int or None
        That feature; None where there is none that gains.
    exchanges : Exchanges
        What is shown of swaps.
    stationarity : float
        dist∞(0, ∂ψ) over the features of the fit, relative to the null fit's: where ψ is differentiable there the
        largest |∂ψ/∂x_j|.
    status : Status
        DIVERGING where the loss has no minimiser over these features, as on separable data.
    message : str
        One sentence, with the figures and, where there is one, the remedy.
    n_grad : int
        Passes over all features.
    n_refits : int
        Fits over a few features.
    wall_s : float
        Seconds of wall-clock time.
    history : tuple of SubsetRecord
        The last times the best fit improved, at most 1000 of them.
    additions : Additions or None
        How many features were examined for the best single addition; None where a limit ended the search before.
    spent, budget : float or None
        What the features of the support cost (the exact sum, rounded to the nearest float64), and what they may cost
        together; None where features have no costs. Then swaps and additions are those that the budget allows.
    """

    x: Vector
    psi: float
    support: Features
    k: int
    multiplier: float
    addition: int | None
    exchanges: Exchanges
    stationarity: float
    status: Status
    message: str
    n_grad: int = 0
    n_refits: int = 0
    wall_s: float = 0.0
    history: tuple[SubsetRecord, ...] = ()
    additions: Additions | None = None
    spent: float | None = None
    budget: float | None = None

    @property
    def success(self) -> bool:
        """Whether the search came to its end, or to where the callback wanted it, with a minimiser."""
        return self.status.success

    @property
    def certificate(self) -> SubsetCertificate:
        """What is shown of the set, in figures."""
        shown = (self.exchanges, self.multiplier, self.addition, self.additions, self.spent, self.budget)
        return SubsetCertificate(self.psi, int(self.support.size), self.k, self.stationarity, *shown)

    def __repr__(self) -> str:
        return f"Subset({self.status}: loss={self.psi:.6g}, {counted(self.support.size, 'feature')}, {self.exchanges})"


class Monitor:
    """Progress of one search, reported through a `Context`, and the limits under which it runs.

    Parameters
    ----------
    ctx : Context, optional
        Without one, only the time limit of this thread holds, and nothing is reported.
    parent : Monitor, optional
        Of the search that this one is a part of: its swaps count there too.
    listener : callable, optional
        Called with the phase of this search whenever it changes or ψ falls.

    Attributes
    ----------
    phase, done, step, n_refits
        As in `SubsetRecord`.
    held_back : bool
        True once there was a swap to try when no more were allowed.
    earlier : float
        Seconds of earlier calls that this one resumes, and of the preparation of the data.
    """

    def __init__(
        self,
        ctx: Context | None = None,
        parent: Monitor | None = None,
        listener: Callable[[Phase], None] | None = None,
    ) -> None:
        self.ctx, self.parent, self.listener = ctx, parent, listener
        self.history: deque[SubsetRecord] = deque(maxlen=_HISTORY_LENGTH)
        self.phase: Phase = "forward"
        self.done: float | None = None
        self.step = self.n_refits = self._n_features = 0
        self.earlier, self._psi = 0.0, math.inf
        self.held_back = False

    @property
    def elapsed(self) -> float:
        """Seconds since the search began, those of earlier calls included."""
        return self.earlier + (0.0 if self.ctx is None else self.ctx.elapsed)

    @property
    def cut_short(self) -> bool:
        """True once a limit has held the search back."""
        if self.held_back or (self.parent is not None and self.parent.cut_short):
            return True
        return seconds_left() <= 0 if self.ctx is None else self.ctx.cut_short

    def seconds_left(self) -> float:
        """Return the seconds left; 0 once the callback has returned True."""
        if self.parent is not None:
            return self.parent.seconds_left()
        return seconds_left() if self.ctx is None else self.ctx.seconds_left()

    def check(self) -> None:
        """Raise `Stop` where no time is left."""
        if self.seconds_left() <= 0:
            raise Stop

    def may_swap(self) -> bool:
        """Return whether one more swap may be taken; a refusal is remembered."""
        self.held_back |= not self._allows(0)
        return not self.held_back

    def _allows(self, taken: int) -> bool:
        taken += self.step
        if self.parent is not None:
            return self.parent._allows(taken)
        return self.ctx is None or self.ctx.may_step(taken)

    @property
    def once(self) -> Callable[[Callable[[], Value]], Value]:
        """A function that returns the result of some work; a resumed run takes it from the checkpoint."""
        return _done if self.ctx is None else self.ctx.once

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        """Apply `step` until its second result is True."""
        if self.ctx is not None:
            return self.ctx.repeated(step, at)
        last = False
        while not last:
            at, last = step(at)
        return at

    def enter(self, phase: Phase) -> None:
        """Report a new phase."""
        self.phase, self.done = phase, None
        self._report(self.record())

    def improved(self, psi: float, n_features: int) -> None:
        """Record a new best fit. Ties are not reported."""
        if psi >= self._psi:
            return
        self._psi, self._n_features = psi, n_features
        self.history.append(self.record())
        self._report(self.history[-1])

    def record(self) -> SubsetRecord:
        """Return how far the search has come."""
        return SubsetRecord(self.step, self.phase, self._psi, self._n_features, self.n_refits, self.elapsed, self.done)

    def _report(self, record: SubsetRecord) -> None:
        if self.listener is not None:
            self.listener(record.phase)
        elif self.ctx is not None and self.parent is None:
            self.ctx.report(Progress(record))

    def as_state(self) -> dict[str, Any]:
        """Return all that has been reported, as plain data."""
        best, history = (self._psi, self._n_features), tuple(self.history)
        return {"step": self.step, "n_refits": self.n_refits, "best": best, "history": history, "seconds": self.elapsed}

    def take(self, state: dict[str, Any]) -> None:
        """Resume from what `as_state` returned; earlier seconds count in `elapsed` only."""
        self.step, self.n_refits = state["step"], state["n_refits"]
        self._psi, self._n_features = state["best"]
        self.history = deque(state["history"], maxlen=_HISTORY_LENGTH)
        self.earlier = state["seconds"]


def _done(work: Callable[[], Value]) -> Value:
    return work()
