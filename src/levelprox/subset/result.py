"""The result of a search for at most k features: the fit, its certificate, and the history."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

from levelprox._typing import Features, Vector
from levelprox.exceptions import counted, warn
from levelprox.result import Status

Phase = Literal["forward", "continuation", "exchanges", "proof"]


@dataclass(frozen=True)
class Swaps:
    """Number of swaps of one feature for another that are shown not to lower ψ.

    Attributes
    ----------
    examined : int
        Swaps that are shown not to lower ψ: excluded by a bound, or tried by a refit.
    total : int
        All swaps: features in the set times features outside.
    local : bool
        True if ψ is not convex: sets are then refitted from a few starts, and may have a lower minimum.
    within_budget : bool
        True if only swaps within a budget of feature costs count.

    Examples
    --------
    >>> from levelprox import LinearModel, best_subset
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> swaps = best_subset(model, 2).swaps
    >>> swaps.examined, swaps.total
    (2, 2)
    >>> print(swaps)
    not improved by any of the 2 swaps of one feature for another
    """

    stored_as: ClassVar[str] = "Exchanges"  # in files

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
    """Number of features that are shown to gain no more than the best single addition.

    Attributes
    ----------
    examined : int
        Features for which this is shown: excluded by a bound, or refitted.
    total : int
        All features outside the set.

    Examples
    --------
    >>> from levelprox import LinearModel, best_subset
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> best_subset(model, 1).additions
    Additions(examined=2, total=2)
    """

    examined: int
    total: int

    @property
    def proved(self) -> bool:
        """Whether no feature at all gains more."""
        return self.examined == self.total


@dataclass(frozen=True)
class Addition:
    """The best single addition to a fit.

    Attributes
    ----------
    gain : float
        ψ of the fit less ψ with the feature, both refitted; 0 where no feature gains more than rounding.
    feature : int or None
    examined : int
        Features that are shown not to gain more: by a refit whose optimality was checked, or by a bound.
    total : int
        Features outside the fit.
    """

    gain: float
    feature: int | None
    examined: int
    total: int


@dataclass(frozen=True)
class SubsetCertificate:
    """Certificate of a fit with at most k features.

    Attributes
    ----------
    psi : float
        ψ(x), recomputed from the data.
    n_nonzero : int
        Nonzero features, without those that are always kept.
    k : int
        Largest allowed number of features.
    stationarity : float
        dist∞(0, ∂ψ) over the features of the fit, relative to the null fit; inf if a limit left no time for it.
    swaps : Swaps
        What is shown about swaps.
    multiplier : float
        Gain of one more feature: ψ(x) minus ψ refitted with the best single addition; nan if a limit ended the search
        before.
    addition : int or None
        That feature; None if no addition gains.
    additions : Additions or None
        How many features were examined for the best addition; None if this is not recorded.
    spent, budget : float or None
        Cost of the features, and the largest allowed cost; None if features have no costs. Swaps and additions are then
        those within the budget.
    addition_name : str or None
        Name of the feature `addition`, if the data have names.

    Examples
    --------
    >>> from levelprox import LinearModel, best_subset
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> certificate = best_subset(model, 2).certificate
    >>> certificate.n_nonzero, certificate.k, certificate.addition
    (2, 2, 2)
    """

    stored_fields: ClassVar[dict[str, str]] = {"swaps": "exchanges"}  # in files

    psi: float
    n_nonzero: int
    k: int
    stationarity: float
    swaps: Swaps
    multiplier: float
    addition: int | None
    additions: Additions | None = None
    spent: float | None = None
    budget: float | None = None
    addition_name: str | None = None

    @property
    def exchanges(self) -> Swaps:
        """Deprecated name of `swaps`."""
        warn("SubsetCertificate.exchanges is deprecated: its name is swaps", DeprecationWarning)
        return self.swaps

    @property
    def examined(self) -> bool:
        """Whether there was time to compute the stationarity; where not, it is inf."""
        return not math.isinf(self.stationarity)

    def as_dict(self) -> dict[str, Any]:
        """Return every figure, for JSON."""
        figures = {"exchanges" if name == "swaps" else name: one for name, one in asdict(self).items()}  # as in 0.1
        figures["exchanges"]["proved"] = self.swaps.proved
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
        gain += " by local refits" if self.swaps.local else ""
        if self.additions is None or self.additions.proved:
            return gain
        return f"{gain} ({self.additions.examined} of {counted(self.additions.total, 'feature')} examined)"

    def __str__(self) -> str:
        rows = [
            ("loss", f"{self.psi:.10g}"),
            ("features ≤ k", f"{self.n_nonzero} ≤ {self.k}"),
            *([] if self.budget is None else [("cost ≤ budget", f"{self.spent:.10g} ≤ {self.budget:.10g}")]),
            ("stationarity (scaled)", f"{self.stationarity:.2e}" if self.examined else "not known: there was no time"),
            ("swaps", str(self.swaps)),
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
    """Progress of a search.

    Attributes
    ----------
    step : int
        Number of swaps so far, which `max_iter` limits.
    phase : {"forward", "continuation", "exchanges", "proof"}
        Forward selection; continuation in the threshold; swaps for as long as ψ decreases; the remaining claims about
        swaps, and the best addition.
    psi : float
        ψ of the best fit so far.
    n_features : int
        Nonzero features of that fit, without those that are always kept.
    n_refits : int
        Fits over a few features so far.
    seconds : float
        Wall-clock time since the search began.
    done : float or None
        Finished fraction of the phase, if known.

    Examples
    --------
    >>> from levelprox import LinearModel, best_subset
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> [record.n_features for record in best_subset(model, 2).history]
    [0, 1, 2]
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
    """Result of `best_subset`: the best set of at most k features that was found, and the fit over it.

    Attributes
    ----------
    x : ndarray of shape (d,)
        All coefficients. At most k features are nonzero, besides those that are always kept.
    psi : float
        ψ(x).
    support : ndarray of int
        Nonzero features, without those that are always kept.
    k : int
        Largest allowed number of features.
    multiplier : float
        Gain of one more feature: ψ(x) minus ψ refitted with the best single addition; nan if a limit ended the search
        before.
    addition : int or None
        That feature; None if no addition gains.
    swaps : Swaps
        What is shown about swaps.
    stationarity : float
        dist∞(0, ∂ψ) over the features of the fit, relative to the null fit; for differentiable ψ the largest |∂ψ/∂x_j|.
    status : Status
        DIVERGING if the loss has no minimiser over these features, as for separable data.
    message : str
        One sentence with the figures and, if there is one, a remedy.
    n_grad : int
        Passes over all features.
    n_refits : int
        Fits over a few features.
    wall_s : float
        Wall-clock time in seconds.
    history : tuple of SubsetRecord
        The last improvements of the best fit, at most 1000.
    additions : Additions or None
        How many features were examined for the best addition; None if a limit ended the search before.
    spent, budget : float or None
        Cost of the support (the exact sum, rounded to the nearest float64), and the largest allowed cost; None if
        features have no costs. Swaps and additions are then those within the budget.

    Examples
    --------
    >>> from levelprox import LinearModel, best_subset
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> subset = best_subset(model, 2)
    >>> subset.support.tolist(), subset.x.tolist(), str(subset.status)
    ([0, 1], [3.0, 2.0, 0.0], 'solved')
    """

    stored_fields: ClassVar[dict[str, str]] = {"swaps": "exchanges"}  # in files

    x: Vector
    psi: float
    support: Features
    k: int
    multiplier: float
    addition: int | None
    swaps: Swaps
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
        """Whether the search finished, or the callback stopped it, with a minimiser."""
        return self.status.success

    @property
    def exchanges(self) -> Swaps:
        """Deprecated name of `swaps`."""
        warn("Subset.exchanges is deprecated: its name is swaps", DeprecationWarning)
        return self.swaps

    @property
    def certificate(self) -> SubsetCertificate:
        """What is shown of the set, in figures."""
        shown = (self.swaps, self.multiplier, self.addition, self.additions, self.spent, self.budget)
        return SubsetCertificate(self.psi, int(self.support.size), self.k, self.stationarity, *shown)

    def __repr__(self) -> str:
        return f"Subset({self.status}: loss={self.psi:.6g}, {counted(self.support.size, 'feature')}, {self.swaps})"
