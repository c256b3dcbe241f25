"""best_subset(): min ψ(x) over all x with at most k nonzero features.

The result is a set that no swap improves, as far as `Swaps` shows it.
`levelprox.subset` has the searches: `SmoothSearch`, `NonsmoothSearch` and `RemoteSearch`.

Everything is a function of ψ, k, the features to be kept and those to begin with: no randomness, and no use of answers
for other k.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._runtime import TimeLimitError, end_now, finishing, limited, one_blas_thread
from levelprox._typing import Features, Vector
from levelprox._validation import nonnegative as at_least_zero
from levelprox._validation import of_a_model, whole
from levelprox.backends import RemoteObjective
from levelprox.constraints.costs import Costs
from levelprox.driver import Run
from levelprox.driver.checkpoint import SavedState, open_checkpoint
from levelprox.driver.run_identity import identity_without_level
from levelprox.exceptions import InvalidInputError
from levelprox.io.checkpoint import Checkpoint
from levelprox.methods import Limits
from levelprox.objectives import LinearModel, Model, Objective
from levelprox.objectives.multiclass import ByClass
from levelprox.objectives.reduced import reduced
from levelprox.problem import SubsetProblem
from levelprox.subset.column_cache import Columns
from levelprox.subset.local_search import Search
from levelprox.subset.nonsmooth_search import NonsmoothSearch
from levelprox.subset.remote_search import RemoteSearch
from levelprox.subset.result import Subset, SubsetRecord
from levelprox.subset.smooth_search import SmoothSearch
from levelprox.subset.starts import has_gram, is_found_by_models

Callback = Callable[[SubsetRecord], "bool | None"]
#: What the state of a search is made of.
KINDS = Search.kinds
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
    checkpoint: str | os.PathLike[str] | Checkpoint | SavedState | None = None,
    resume: bool | str | os.PathLike[str] = False,
    _guidance: Mapping[str, Any] | None = None,
) -> Subset:
    """Minimise ψ(x) over all x with at most k nonzero features, and say how far no swap improves the answer.

    Parameters
    ----------
    objective : LinearModel or MultinomialModel
        ψ. Its own intercept never counts. Where a feature has a coefficient for each
        class, it counts once.
    k : int, optional
        How many features may be nonzero; any number where it is left out and there is a `budget`.
    feature_cost : array-like of shape (n_features,), optional
        What each feature costs: numbers of at least 0, for a `budget`. A feature of cost 0 is free to take; it is in
        the fit only if it lowers ψ. Features of `keep` cost nothing; their given costs are ignored.
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
        Whether to examine all swaps, however long that takes. By default all are where there are at most 1e5 and the
        refits that bounds leave to do are not much work; else as many as are, and at least the 50 most promising ones.
        For the squared loss all are always. For losses with kinks the 50 most promising are by default. Of a softmax
        model, or a loss with kinks, of more than 16 classes fewer may be: the work of a search is bounded there.
        `Subset.swaps` and `Subset.additions` count what was examined.
    start : array-like of int or bool, optional
        Features, by index or mask, to begin with: swaps then begin from these alone, which is fast where they are
        nearly the best ones. The answer then depends on them, and may be worse than without. Of more than k the most
        useful are kept; to fewer the most useful others are added.
    max_iter : int, optional
        How many swaps may be taken; by default any number.
    time_limit : float, optional
        Seconds of wall-clock time; the best set by then is returned.
    callback : callable, optional
        Called as callback(record) with a `SubsetRecord` whenever the best fit improves, at every phase, and some times
        a second in between; returning True stops the search.
    checkpoint : path-like or Checkpoint, optional
        File for the state of the search, as in `solve`.
    resume : bool or path-like, default=False
        Whether to resume from it, as in `solve`; the result has the same bits.

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
    if not isinstance(objective, Model | RemoteObjective):
        raise InvalidInputError(
            "best_subset needs a LinearModel or MultinomialModel; for others, solve with a constraint of small "
            "threshold at level (k + 1/2) * cap"
        )
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of a record, got {callback!r}")
    remote = isinstance(objective, RemoteObjective)
    kept_file = checkpoint is not None and not (isinstance(checkpoint, SavedState) and checkpoint.idle)
    if remote and (kept_file or resume is not False):
        raise InvalidInputError("a checkpoint of a search for k features is for data in memory; give a level")
    problem = _problem(objective, k, keep, nonnegative, feature_cost, budget)
    seconds = math.inf if time_limit is None else at_least_zero("time_limit", time_limit)
    most = math.inf if max_iter is None else whole("max_iter", max_iter)
    begin = None if start is None else _features("start", start, objective)
    tol, began = at_least_zero("tol", tol), time.monotonic()

    def identity() -> dict[str, str]:
        signs, costs = problem.must_be_nonnegative(), problem.costs
        held: dict[str, object] = {"keep": problem.unpenalized, "nonnegative": signs if np.any(signs) else None}
        if costs is not None:
            held |= {"feature_cost": costs.cost, "budget": costs.budget}
        return identity_without_level(objective, k=problem.k, tol=tol, prove=bool(prove), start=begin, **held)

    with limited(seconds), one_blas_thread(), open_checkpoint(checkpoint, resume, identity, KINDS) as saved:
        searched, search = problem, cast(Search, RemoteSearch(tol, bool(prove), begin))
        if isinstance(objective, Model) and not objective.curved:
            search = NonsmoothSearch(tol, bool(prove), begin)
        elif not remote:
            search, searched = _smooth_search(problem, tol, bool(prove), begin, dict(_guidance or {}))
        search.monitor.earlier = time.monotonic() - began  # the preparation of the data
        found: Subset = Run(search, searched, Limits(seconds, most), callback, saved)()
        return found


#: For callers that have a model: without the check for arrays in its place.
unchecked_subset: Callable[..., Subset] = inspect.unwrap(best_subset)


def _problem(
    objective: Model | RemoteObjective,
    k: int | None,
    keep: ArrayLike | None,
    nonnegative: bool | NDArray[np.bool_] | None,
    feature_cost: ArrayLike | None,
    budget: float | None,
) -> SubsetProblem:
    """Return the problem, with all arguments checked."""
    if (feature_cost is None) != (budget is None):
        raise InvalidInputError("feature_cost and budget go together: give both, or neither")
    if k is None and budget is None:
        raise InvalidInputError("give k, how many features may be nonzero, or feature_cost and a budget")
    if budget is not None and isinstance(objective, RemoteObjective):
        raise InvalidInputError("feature_cost and budget are for data in memory, not for Dask, files or a device")
    if k is not None and np.ndim(k) > 0:
        raise InvalidInputError(f"k must be an integer, got {k!r}; subset_path(model, k) takes several")
    n_features, own = objective.dimension // objective.n_outputs, objective.unpenalized
    count = n_features - own.size if k is None else whole("k", k)
    kept = np.empty(0, np.intp) if keep is None else _features("keep", keep, objective)
    problem = SubsetProblem(objective, count, kept, nonnegative)
    if feature_cost is None:
        return problem
    return replace(problem, costs=Costs.of(feature_cost, budget, n_features, own, problem.unpenalized))


def _smooth_search(
    problem: SubsetProblem, tol: float, prove: bool, start: Features | None, guidance: dict[str, Any]
) -> tuple[SmoothSearch, SubsetProblem]:
    """Return the search, and its problem over standardised columns or fewer rows where that is of use.

    `guidance` is what callers inside the package know besides: parameters of `SmoothSearch` (examine, leave, thorough,
    known), `forms`, a dict in which searches of one objective for several k keep what they share: ψ over standardised
    columns, and over fewer rows, and `columns`, a list with the cache of its columns once there is one. It is ignored
    for losses with kinks and for data on Dask, in files or on a device. `examine=False` returns a set that promising
    swaps do not improve, and shows nothing of it, as for fits of the folds of a cross-validation: the search is
    shorter, and its loss may be higher.
    """
    objective, forms, standardised = problem.objective, guidance.pop("forms", {}), None
    columns = guidance.pop("columns", None)
    if isinstance(objective, LinearModel | ByClass):
        standardised = _form(forms, "standardised", lambda: objective.standardised())
    fewer = None if problem.costs is not None else _reduced(problem, standardised, forms)
    if fewer is not None:
        start = None if start is None else start[start < fewer.n_features]
        guidance, problem = {"examine": guidance.get("examine", True)}, fewer
    elif standardised is not None:
        problem = replace(problem, objective=standardised)
    data = cast(LinearModel | ByClass, objective) if problem.objective is not objective else None
    if columns is not None and isinstance(problem.objective, LinearModel):
        if not columns or columns[0].objective is not problem.objective:
            columns[:] = [Columns(problem.objective)]
        guidance["columns"] = columns[0]
    saved_as = "models" if is_found_by_models(problem) else "gram" if has_gram(problem) else ""
    return SmoothSearch(tol, prove, start, saved_as=saved_as, data=data, **guidance), problem


def _reduced(
    problem: SubsetProblem, standardised: Model | None, forms: dict[str, Model | None]
) -> SubsetProblem | None:
    """Return the problem over fewer rows, where that is possible and there is time to read all of them."""
    data, standard = problem.objective, standardised or problem.objective
    if not isinstance(data, LinearModel) or not isinstance(standard, LinearModel):
        return None
    if np.any(problem.must_be_nonnegative()):
        return None
    fewer = _form(forms, "reduced", lambda: reduced(data, standard))
    if fewer is None:
        return None
    return replace(
        problem, objective=fewer, keep=problem.unpenalized[problem.unpenalized < fewer.dimension], nonnegative=None
    )


def _form(forms: dict[str, Model | None], name: str, make: Callable[[], Model | None]) -> Model | None:
    """Return a form of ψ, made where it is not known yet; None where there is no such form, or no time."""
    if name not in forms:
        try:
            with finishing():
                forms[name] = make()
        except TimeLimitError:
            return None
        except KeyboardInterrupt:
            end_now()
            return None
    return forms[name]


def _features(name: str, given: ArrayLike, objective: Model | RemoteObjective) -> Features:
    """Features by index or mask, sorted, each once."""
    n_features = objective.dimension // objective.n_outputs
    chosen = np.asarray(given)
    mask = chosen.dtype == np.bool_
    counted = n_features - objective.unpenalized.size
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
