"""One search for the best set of features, for all kinds of data and losses.

A search begins with the null model, finds sets to start from, improves them by swaps of one feature for another, and
examines the best set: which swaps are shown not to lower ψ, and what one more feature gains. The subclasses say how:

- `SmoothSearch` (smooth_search.py): ψ is twice differentiable and the data are in memory;
- `NonsmoothSearch` (nonsmooth_search.py): the loss has kinks;
- `RemoteSearch` (remote_search.py): the data are out of core, on a cluster or on a GPU, and ψ answers in rounds.

Each implements `_begin` (the null model and the first fit), `steps` (starts, improvements, examination) and, for the
`Subset` at the end, `_answer` and `_figures`. Time, callbacks and checkpoints are the driver's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np

from levelprox._runtime import TimeLimitError, end_now, finishing
from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.constraints import MCP
from levelprox.exceptions import counted
from levelprox.methods import Context, Ending, Method, Progress
from levelprox.methods.continuation import continued
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import LinearModel, Model, Objective
from levelprox.problem import SubsetProblem
from levelprox.result import Iterate, Status
from levelprox.subset.fit import Fit, lowest
from levelprox.subset.monitor import Monitor
from levelprox.subset.newton import last_digits
from levelprox.subset.nonsmooth_refit import ExactFit
from levelprox.subset.result import Additions, Subset, SubsetRecord, Swaps
from levelprox.subset.swaps import Addition, SwapSearch

_ACCEPTABLE_FACTOR = 100  # times tol: a stationarity that needs no warning
_LEAST_ACCEPTABLE = 1e3 * 2.0**-52  # a stationarity that needs no warning, for any tol
_FAR_FACTOR = 128.0  # times x: where ψ is compared with ψ(x)
_FALLS_SHARE = 1e-9  # of ψ: less is rounding
_SEPARABLE = (
    "The data are separable: with these features the loss has no minimiser. It falls as coefficients grow, and only "
    "precision limits them: their sizes, and probabilities, are arbitrary. A ridge, fewer features, or a level of a "
    "constraint without a cap, such as l1, keep them finite."
)
_RAY_STARTS = 2.0 ** (np.arange(-4, 11) / 2)  # median margins from which descents along a ray begin
_CONTINUATION_TOL = 3e-3
_LAST_THRESHOLD_SHARE = 2.0**-10  # of the largest coefficient
_LEAST_THRESHOLD = 2.0**-500  # whose square is in the range of float64


class Answer(NamedTuple):
    """The best fit of a search, and what is shown of it.

    `examined` swaps are shown not to lower ψ; `note` is added to the summary of a search that came to its end.
    """

    fit: Fit
    examined: int
    addition: Addition | None
    n_grad: int
    n_refits: int
    note: str = ""


@dataclass(eq=False)
class Search(Method[Fit]):
    """The skeleton of a search, a method that the driver runs; it is resumed by replay.

    Parameters
    ----------
    tol : float
        How well each set is fitted: on the derivatives of ψ along its features, each relative to what the null fit
        leaves to its column.
    prove : bool
        Whether to examine all swaps, however long that takes.
    start : ndarray of int, optional
        Features to begin with.
    monitor : Monitor
        Reports and limits.
    saved_as : str
        The part of the checkpoint to use.

    Attributes
    ----------
    problem : SubsetProblem
    null : NullFit
    complete : bool
        True once the search has come to its end.
    """

    tol: float = 1e-8
    prove: bool = False
    start: Features | None = None
    monitor: Monitor = field(default_factory=Monitor)
    saved_as: str = ""

    problem: SubsetProblem = field(init=False)
    null: NullFit = field(init=False)
    complete: bool = field(default=False, init=False)

    kinds = (Fit, ExactFit, Addition, SubsetRecord)
    replays = True

    @property
    def k(self) -> int:
        """How many features may be nonzero."""
        return self.problem.k

    @property
    def reported_objective(self) -> Objective:
        """ψ in the units of the data."""
        return self.problem.objective

    def init(self, problem: SubsetProblem, ctx: Context) -> Fit:
        """Compute the null model, and return the first fit."""
        self.problem, self.monitor.ctx = problem, ctx
        return self._begin()

    def progress(self) -> Progress:
        """Return how far the search has come."""
        return Progress(self.monitor.record())

    # --- what subclasses implement, with `steps`, `memory` and `restore`

    def _begin(self) -> Fit:
        """Compute the null model, as far as there is time, and return the first fit."""
        raise NotImplementedError

    def _answer(self) -> Answer:
        """Return the best fit, and what is shown of it."""
        raise NotImplementedError

    def _figures(self, fit: Fit, x: Vector) -> tuple[float, float]:
        """Return ψ and the stationarity of a fit, from the data; x is that over all coordinates of the data."""
        raise NotImplementedError

    def _reported(self, x: Vector) -> Vector:
        """Return x in the units of the data."""
        return x

    def _attains(self, fit: Fit, psi: float) -> bool:
        """Return whether ψ, recomputed, is that of the fit, so that what is shown of the fit holds."""
        return True

    def _concludes(self) -> bool:
        """Return whether the answer is final; else another search continues from it."""
        return True

    # --- what they share

    def whole(self, fit: Fit) -> Vector:
        """Return x over all coordinates, in the units of the data."""
        return self._reported(self.problem.spread(fit.features, fit.x))

    def finish(self, state: Fit, status: Status, ctx: Context) -> Subset:
        """Recompute the figures of the answer from the data, and describe it."""
        problem, answer = self.problem, self._answer()
        fit, examined, addition = answer.fit, answer.examined, answer.addition
        x, features, costs = self.whole(fit), fit.features, problem.costs
        support = problem.counted(problem.support(problem.spread(features, fit.x)))
        psi, stationarity, unknown = fit.psi, math.inf, "; there was no time to recompute its figures"
        if self.null.examined and self._concludes():
            try:
                with finishing():
                    psi, stationarity = self._figures(fit, x)
                unknown = ""
            except TimeLimitError:
                pass
            except KeyboardInterrupt:
                end_now()
                status = Status.INTERRUPTED
        if not unknown and not self._attains(fit, psi):
            examined, addition = 0, None if addition is None else replace(addition, examined=0)
        if costs is not None and not np.array_equal(support, problem.counted(features)):
            features = problem.with_unpenalized(support)  # what is shown is of another set
            examined, addition = 0, None
        local = self.reported_objective.convex_start is not None
        swaps = Swaps(examined, problem.count_swaps(features), local, within_budget=costs is not None)
        summary = f"{self._used(support)}, loss = {psi:.6g}; {swaps}{unknown}"
        if self.complete and status is not Status.INTERRUPTED:
            summary += answer.note
        message = summary
        if self._concludes():
            ending = self._ending(status, summary, x, stationarity)
            status, message = ending.status, ctx.message(ending)
        found = Subset(x, psi, support, self.k, math.nan, None, swaps, stationarity, status, message)
        work: dict[str, Any] = {"n_grad": answer.n_grad + 1, "n_refits": answer.n_refits}
        found = replace(found, **work, wall_s=self.monitor.elapsed, history=tuple(self.monitor.history))
        if addition is not None:
            additions = Additions(addition.examined, addition.total)
            found = replace(found, multiplier=addition.gain, addition=addition.feature, additions=additions)
        return found if costs is None else replace(found, spent=costs.spent(support.tolist()), budget=costs.budget)

    def _ending(self, status: Status, figures: str, x: Vector, stationarity: float) -> Ending:
        """Return the status of the answer, and what the message says of it."""
        objective = self.reported_objective
        try:
            with finishing():
                separated = objective.is_separated(x) and _falls_farther_out(objective, x)
        except TimeLimitError:
            separated, figures = False, f"{figures}; whether the data are separable was not examined"
        if separated and status is Status.SOLVED:
            status = Status.DIVERGING
        if status is Status.SOLVED and stationarity > max(_ACCEPTABLE_FACTOR * self.tol, _LEAST_ACCEPTABLE):
            figures += f"; stationarity {stationarity:.1e} > tol {self.tol:.1e}"
            return Ending(Status.SOLVED_INACCURATE, figures, remedy="Raise tol.", advice=objective.advice())
        notes = (_SEPARABLE,) if separated else ()
        steps = f"after {counted(self.monitor.step, 'swap')}" if status is Status.MAX_ITER else ""
        remedy = {Status.MAX_ITER: "Raise max_iter.", Status.TIME_LIMIT: "Raise time_limit."}.get(status, "")
        return Ending(status, figures, steps=steps, remedy=remedy, notes=notes, warns=separated)

    def _used(self, support: Features) -> str:
        """Return in words how much of what is allowed a set uses."""
        costs, words = self.problem.costs, counted(support.size, "feature")
        if costs is None:
            return f"{words} of at most {self.k}"
        if self.k < self.problem.n_counted:
            words += f" of at most {self.k}"
        return f"{words} at a cost of {costs.spent(support.tolist()):.6g} of at most {costs.budget:.6g}"


def sets_by_continuation(
    problem: SubsetProblem, start: Iterate, direct: Iterate, support: Features, how: SolverOptions
) -> Iterator[tuple[Features, Iterate, int]]:
    """Yield the k largest features of each stage of a continuation in the threshold, with its end and its passes.

    Parameters
    ----------
    problem : SubsetProblem
    start : Iterate
        The null fit.
    direct : Iterate
        A fit over a set that was found otherwise.
    support : ndarray of int
        Its features.
    how : SolverOptions
    """
    largest = float(np.max(problem.sizes(direct.x)[problem.counted(support)], initial=0.0))
    threshold = _LAST_THRESHOLD_SHARE * largest
    if not threshold > _LEAST_THRESHOLD:
        return
    relaxed = problem.relaxed(MCP.from_threshold(threshold))
    for stage, end in continued(relaxed, start, direct, how, _CONTINUATION_TOL, count=problem.k + 1):
        sizes = problem.sizes(end.x)
        counted = problem.counted(np.flatnonzero(sizes))
        largest_k = counted[np.argsort(-sizes[counted], kind="stable")[: problem.k]]
        yield problem.with_unpenalized(largest_k), end, stage.n_grad


def best_by_continuation(swaps: SwapSearch, direct: Fit) -> Fit:
    """Return the best of a fit and the sets that a continuation in the threshold passes."""
    problem, objective, null = cast(SubsetProblem, swaps.problem), swaps.objective, swaps.null
    margins = objective.restrict(problem.unpenalized).margins(null.x[problem.coordinates(problem.unpenalized)])
    if _is_piecewise_linear(problem, margins) or problem.has_many_coordinates:
        return direct
    curvature = np.einsum("jaa->j", objective.feature_hessians_of(margins))
    scale = np.sqrt(np.where(curvature > 0, curvature, 1.0))
    scale[objective.unpenalized] = 1.0
    wide = np.repeat(scale, problem.n_outputs)
    assert null.gradient is not None
    start = Iterate(wide * null.x, null.psi, null.gradient / wide)
    at = Iterate(wide * problem.spread(direct.features, direct.x), direct.psi, start.gradient)
    scaled = replace(problem, objective=objective.scaled(scale))
    size = float(np.max(problem.sizes(start.gradient), initial=0.0))
    null = NullFit(start.x, start.psi, None, size or 1.0)
    how = replace(swaps.how, null=null)
    best, columns = direct, swaps.refits.columns
    columns.forget()  # the stages have others
    for features, end, n_grad in sets_by_continuation(scaled, start, at, direct.features, how):
        swaps.n_grad += n_grad
        swaps.check_time()
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        fit = swaps.fitted(features)
        columns.forget()
        best = fit if fit.psi < best.psi else best
    return best


def best_along_ray(swaps: SwapSearch, ray: Fit, best: Fit) -> Fit:
    """Return the best fit over the same features from any point of a ray, where ψ may fall without end along it.

    How far out a descent begins then decides where it ends: most samples should still pull, but some no longer.
    """
    size = 0.0 if swaps.objective.attained else float(np.median(np.abs(ray.margins)))
    starts = [replace(ray, x=reach / size * ray.x) for reach in _RAY_STARTS] if size > 0 else []
    fit = lowest([best, *map(swaps.downhill, starts)])
    return best if fit is None or fit is best else best_along_ray(swaps, fit, fit)


def to_the_last_digits(problem: SubsetProblem, fit: Fit, null: NullFit) -> Fit:
    """Return the same set, fitted as well as it can be: coefficients have half the digits that ψ has."""
    part = problem.restrict(fit.features)
    objective = cast(Model, part.objective)
    if np.any(part.must_be_nonnegative()) or objective.is_separated(fit.x):
        return fit
    digits = last_digits(objective, fit.x)
    # Of near-equal columns, or columns with a large mean, terms are large and cancel: margins from a fit in a basis
    # have more digits than these.
    if null.reported(objective, digits["x"], digits["psi"]) != digits["psi"]:
        return fit
    return replace(fit, **digits) if digits["psi"] <= fit.psi + fit.resolution else fit


def _is_piecewise_linear(problem: SubsetProblem, margins: Vector) -> bool:
    """Return whether no more samples bend at the null fit than it has coefficients.

    So it is for Huber's loss with residuals far beyond its parabola: second-order models say nothing there.
    """
    objective = problem.objective
    if not isinstance(objective, LinearModel) or math.isfinite(objective.self_concordance):
        return False
    return int(np.count_nonzero(objective.bend_of(margins, True))) <= problem.unpenalized.size


def _falls_farther_out(objective: Objective, x: Vector) -> bool:
    """Return whether ψ is lower far out along x by more than its last digits; always for convex ψ.

    A bounded loss counts errors there: its fits are as far out as is of use.
    """
    if objective.convex_start is None:
        return True
    here, far = (objective.value_and_gradient(t * x)[0] for t in (1.0, _FAR_FACTOR))
    return here == 0 or here - far > _FALLS_SHARE * abs(here)
