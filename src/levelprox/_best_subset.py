"""At most k features: min ψ(x) over all x with at most k nonzero features.

What comes back is a set that no exchange of one feature for another improves, as far as `Exchanges` says that this was
shown. How it is found is in search.py, and for losses with kinks in kinked_search.py.

Everything is a function of ψ, k, the features to be kept and those to begin with: no randomness, and no use of answers
for other k.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._runtime.blas import one_blas_thread
from levelprox._runtime.deadline import TimeLimitError, end_now, finishing, limited
from levelprox._validation import nonnegative as at_least_zero
from levelprox._validation import of_a_model, whole
from levelprox.backends import Asked
from levelprox.constraints import MCP
from levelprox.driver.checkpoint import Journal, keeping
from levelprox.driver.run_identity import identity_without_level
from levelprox.driver.search_monitor import Callback, Watch
from levelprox.exceptions import InvalidInputError
from levelprox.io.checkpoint import Checkpoint
from levelprox.objectives import LinearModel, Model, Objective
from levelprox.objectives._multiclass import ByClass
from levelprox.objectives.reduced import reduced
from levelprox.problem import Problem
from levelprox.result import CUT_SHORT
from levelprox.subset.cost_search import CostSearch
from levelprox.constraints.costs import Costs
from levelprox.subset.local_search import Search
from levelprox.subset.nonsmooth_search import KinkedSearch
from levelprox.subset.nonsmooth_sets import ExactFit
from levelprox.subset.refit import Fit
from levelprox.subset.remote_search import DistantSearch
from levelprox.subset.result import Subset, SubsetRecord
from levelprox.subset.swaps import Addition

#: What the state of a search is made of.
KINDS: tuple[type, ...] = (Fit, ExactFit, Addition, SubsetRecord)

Vector = NDArray[np.float64]
Features = NDArray[np.intp]
#: Whether to end a search with a set: its features, x, and whether it is the last one.
Leave = Callable[[Features, Vector, bool], bool]


@of_a_model(
    "a LinearModel or MultinomialModel",
    "best_subset(LinearModel(X, y), k), with fit_intercept=True in LinearModel for an intercept; or "
    "SparseRegressor(n_features=k).fit(X, y) and SparseClassifier(n_features=k).fit(X, y), which take arrays",
)
def best_subset(
    objective: Objective,
    k: int | None = None,
    *,
    feature_cost: ArrayLike | None = None,
    budget: float | None = None,
    keep: ArrayLike | None = None,
    nonnegative: bool | NDArray[np.bool_] | None = None,
    tol: float = 1e-8,
    prove: bool = False,
    start: ArrayLike | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | Journal | None = None,
    resume: bool | str | os.PathLike[str] = False,
) -> Subset:
    """Minimise ψ(x) over all x with at most k nonzero features, and say how far no exchange improves the answer.

    Parameters
    ----------
    objective : LinearModel or MultinomialModel
        ψ. Its own intercept never counts. Where a feature has a coefficient for each
        class, it counts once.
    k : int, optional
        How many features may be nonzero; any number where it is left out and there is a `budget`.
    feature_cost : array-like of shape (n_features,), optional
        What each feature costs: numbers of at least 0, for a `budget`. A feature of cost 0 is free to take; it is in
        the fit only if it lowers ψ. Features of `keep` cost nothing, whatever is given for them.
    budget : float, optional
        What the nonzero features may cost together, with `feature_cost`. Where k is given, both hold. The sum is exact:
        costs 0.1 and 0.2 exceed a budget of 0.3, as float64 numbers do. Give whole numbers, such as cents, where that
        matters. For models of data in memory.
    keep : array-like of int or bool, optional
        Features, by index or mask, that are always in the fit and never count.
    nonnegative : bool or array-like of bool, optional
        Which coordinates must not be negative, as in `Problem`.
    tol : float, default=1e-8
        How well each set is fitted: on the derivatives of ψ along its features, each relative to what the null fit
        leaves to its column.
    prove : bool, default=False
        Whether to examine all exchanges whatever that takes. By default all are where there are at most 1e5 and the
        refits that bounds leave to do are not much work; else as many as are, and at least the 50 most promising ones.
        For the squared loss all are always. For losses with kinks the 50 most promising are by default. Of a softmax
        model, or a loss with kinks, of more than 16 classes fewer may be: the work of a search is bounded there.
        `Subset.exchanges` and `Subset.additions` count what was examined.
    start : array-like of int or bool, optional
        Features, by index or mask, to begin with: exchanges then begin from these alone, which is fast where they are
        nearly the best ones. The answer then depends on them, and may be worse than without. Of more than k the most
        useful are kept; to fewer the most useful others are added.
    max_iter : int, optional
        How many exchanges may be taken; by default any number.
    time_limit : float, optional
        Seconds of wall-clock time; the best set by then is returned.
    callback : callable, optional
        Called as callback(record) with a `SubsetRecord` whenever the best fit improves, at every phase, and some times
        a second in between; returning True stops the search.
    checkpoint : path-like or Checkpoint, optional
        A file in which the state of the search is kept, as in `solve`.
    resume : bool or path-like, default=False
        Whether to go on from there, as in `solve`; with the same bits in the end.

    Returns
    -------
    Subset

    Warns
    -----
    ConvergenceWarning
        When `time_limit` or `max_iter` ended the search, when the fit misses 100 tol, and when the loss has no
        minimiser over the features found (separable data): with the figures and the remedy.

    Notes
    -----
    A column whose entries are all below 1e-290 may count as a column of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, best_subset
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> b = X[:, 3] - 2 * X[:, 7]
    >>> best_subset(LinearModel(X, b), 2).support.tolist()
    [3, 7]

    Feature 7 costs 5 and all others 1, with 4 to spend:

    >>> cost = np.ones(30)
    >>> cost[7] = 5
    >>> found = best_subset(LinearModel(X, b), feature_cost=cost, budget=4)
    >>> 7 in found.support, found.spent, found.budget
    (False, 4.0, 4.0)
    """
    return _found(
        objective,
        k,
        keep,
        nonnegative,
        tol,
        prove,
        start,
        max_iter,
        time_limit,
        callback,
        checkpoint,
        resume,
        feature_cost=feature_cost,
        budget=budget,
    )


def guided_subset(
    objective: Objective,
    k: int,
    *,
    examine: bool = True,
    leave: Leave | None = None,
    thorough: bool = False,
    known: Features | None = None,
    **asked: Any,
) -> Subset:
    """Return what `best_subset` does, for callers that know more.

    Parameters
    ----------
    objective, k, **asked
        As in `best_subset`.
    examine : bool
        False returns a set that promising exchanges do not improve, and shows nothing of it, as for fits of the folds
        of a cross-validation. The search is shorter than that of `best_subset`, and its loss may be higher.
    leave, thorough, known
        As in `Search`. They are ignored for data on Dask, in files or on a device.
    """
    return _found(objective, k, examine=examine, leave=leave, thorough=thorough, known=known, **asked)


def _found(
    objective: Objective,
    k: int | None,
    keep: ArrayLike | None = None,
    nonnegative: bool | NDArray[np.bool_] | None = None,
    tol: float = 1e-8,
    prove: bool = False,
    start: ArrayLike | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | Journal | None = None,
    resume: bool | str | os.PathLike[str] = False,
    examine: bool = True,
    feature_cost: ArrayLike | None = None,
    budget: float | None = None,
    leave: Leave | None = None,
    thorough: bool = False,
    known: Features | None = None,
) -> Subset:
    if not isinstance(objective, Model | Asked):
        raise InvalidInputError(
            "best_subset needs a LinearModel or MultinomialModel; for others, solve with a constraint of small "
            "threshold at level (k + 1/2) * cap"
        )
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of a record, got {callback!r}")
    if (feature_cost is None) != (budget is None):
        raise InvalidInputError("feature_cost and budget go together: give both, or neither")
    if k is None and budget is None:
        raise InvalidInputError("give k, how many features may be nonzero, or feature_cost and a budget")
    if budget is not None and isinstance(objective, Asked):
        raise InvalidInputError("feature_cost and budget are for data in memory, not for Dask, files or a device")
    if k is not None and np.ndim(k) > 0:
        raise InvalidInputError(f"k must be an integer, got {k!r}; subset_path(model, k) takes several")
    n_features = objective.dimension // objective.width
    count = n_features - objective.exempt.size if k is None else whole("k", k)
    seconds = math.inf if time_limit is None else at_least_zero("time_limit", time_limit)
    most = math.inf if max_iter is None else whole("max_iter", max_iter)
    begin = None if start is None else _features("start", start, objective)
    problem = Problem(objective, MCP.from_threshold(1.0), count + 0.5, _weights(objective, keep), nonnegative)
    costs = None
    if feature_cost is not None:
        costs = Costs.of(feature_cost, budget, n_features, objective.exempt, problem.exempt)
    watch = Watch(seconds, most, callback)
    kind: Any = DistantSearch if isinstance(objective, Asked) else Search if objective.curved else KinkedSearch
    more: dict[str, Any] = {} if costs is None else {"costs": costs}

    def identity() -> dict[str, str]:
        kept, signs = problem.exempt, problem.must_be_nonnegative()
        held: dict[str, object] = {"keep": kept, "nonnegative": signs if np.any(signs) else None}
        if costs is not None:
            held |= {"feature_cost": costs.cost, "budget": costs.budget}
        return identity_without_level(objective, k=count, tol=tol, prove=bool(prove), start=begin, **held)

    with (
        limited(seconds),
        one_blas_thread(isinstance(objective, Model)),
        keeping(checkpoint, resume, identity, KINDS) as journal,
    ):
        arguments = (count, at_least_zero("tol", tol), bool(prove), watch, begin, journal)
        standardised = _standardised(objective) if kind is Search else None
        fewer = _reduced(problem, standardised) if kind is Search and not more else None
        if fewer is not None:
            arguments = (*arguments[:4], _without_intercept(begin, fewer), journal)
            found: Subset = Search(fewer, *arguments, data=cast(LinearModel, objective), examine=examine)()
        elif kind is Search:
            data = None if standardised is None else cast(LinearModel | ByClass, objective)
            problem = problem if standardised is None else replace(problem, objective=standardised)
            smooth: Any = CostSearch if more else Search
            more |= {"leave": leave, "thorough": thorough, "known": known}
            found = smooth(problem, *arguments, data=data, examine=examine, **more)()
        else:
            found = kind(problem, *arguments, **more)()
        return replace(found, message=found.message + journal.advice) if found.status in CUT_SHORT else found


def _standardised(objective: Model | Asked) -> LinearModel | ByClass | None:
    """The model over standardised columns, where these are needed and there is time to look at them."""
    if not isinstance(objective, LinearModel | ByClass):
        return None
    try:
        with finishing():
            return objective.standardised()
    except TimeLimitError:
        return None
    except KeyboardInterrupt:
        end_now()
        return None


def _reduced(problem: Problem, standardised: LinearModel | ByClass | None) -> Problem | None:
    """The problem over fewer rows, where that is possible and there is time to look at all of them."""
    data, standard = problem.objective, standardised or problem.objective
    if not isinstance(data, LinearModel) or not isinstance(standard, LinearModel):
        return None
    if np.any(problem.must_be_nonnegative()):
        return None
    try:
        with finishing():
            fewer = reduced(data, standard)
    except TimeLimitError:
        return None
    except KeyboardInterrupt:
        end_now()
        return None
    if fewer is None:
        return None
    weights = None if problem.weights is None else problem.weights[: fewer.dimension]
    return replace(problem, objective=fewer, weights=weights, nonnegative=None)


def _without_intercept(features: Features | None, problem: Problem) -> Features | None:
    return None if features is None else features[features < problem.n_features]


def _weights(objective: Model | Asked, keep: ArrayLike | None) -> Vector | None:
    if keep is None:
        return None
    weights = np.ones(objective.dimension // objective.width)
    weights[_features("keep", keep, objective)] = 0.0
    return weights


def _features(name: str, given: ArrayLike, objective: Model | Asked) -> Features:
    """Features by index or mask, sorted, each once."""
    n_features = objective.dimension // objective.width
    chosen = np.asarray(given)
    mask = chosen.dtype == np.bool_
    counted = n_features - objective.exempt.size
    if chosen.ndim != 1 or (mask and chosen.size not in (n_features, counted)):
        raise InvalidInputError(
            f"{name} must be a list of features or a mask of all {counted}, got shape {chosen.shape}"
        )
    if not mask and (chosen.dtype.kind not in "iu" and chosen.size):
        raise InvalidInputError(f"{name} must be integers or booleans, got dtype {chosen.dtype}")
    places = np.flatnonzero(chosen) if mask else chosen.astype(np.intp)
    if places.size and not (places.min() >= 0 and places.max() < n_features):
        raise InvalidInputError(f"{name} must be within 0..{n_features - 1}, got {places.min()}..{places.max()}")
    return np.unique(places)
