"""Fits of data that are not in this process's memory: on a cluster (Dask), in files (`Chunked`), on a device.

What `fit` reads of data in memory is here asked for: a statistics of X and y first, then ψ in rounds. All that follows,
coefficients, certificate and budget, is the same.

Choosing the budget for data that are elsewhere: folds are weights of 0 and 1, and the data stay where they are.

Of each chunk about as many rows are in every fold, by a seed: which are held out depends on nothing else. The score of
a fold is minus the mean loss of the rows held out, or their accuracy where fits diverge; a round for each candidate.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted, validate_data

from levelprox.backends._base import DataSource
from levelprox.backends.array_namespace import array_namespace, on_device
from levelprox.backends.dispatch import is_dask, is_on_device, is_remote, library_of, source_of
from levelprox.backends.partition import Form
from levelprox.backends.statistics import Statistics
from levelprox.designs.chunked import Chunked
from levelprox.estimators._callbacks import counting, quiet
from levelprox.estimators._criteria import check_likelihood
from levelprox.estimators._fit import Task
from levelprox.estimators._fold_fits import Scored, diverges
from levelprox.estimators._input import READING, naming_the_place
from levelprox.estimators._parameters import Budget
from levelprox.estimators._prediction import OnDevice, check_place, place_of
from levelprox.estimators._standardization import Standardization
from levelprox.exceptions import InvalidInputError, warn
from levelprox.report.progress import Passes
from levelprox.result import Status

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Prepared:
    """Samples that are elsewhere, ready to be a model.

    Attributes
    ----------
    source : DataSource
        With weights of classes, where there are some.
    form : Form
    statistics : Statistics
        Of the source.
    total : float
        Σ s without the weights of classes.
    count : float
        By what a budget is chosen where none is given: samples or, of classes, those of the rarest.
    unit : float
        The unit of the coefficients of standardised features.
    """

    source: DataSource
    form: Form
    statistics: Statistics
    total: float
    count: float
    unit: float


def source_at(X: Any, y: Any, weight: Any, offset: Any, passes: Passes | None = None) -> DataSource:
    """The samples, there where they are; `passes` is told of those over files."""
    _check_together(X, y=y, sample_weight=weight, offset=offset)
    source = source_of(X, y, weight, offset, progress=passes)
    assert source is not None
    return source


class Elsewhere:
    """A model that can be fitted to data that are elsewhere."""

    def _fit_elsewhere(self, X: Any, y: Any, weight: Any, offset: Any = None) -> Self:
        """What `fit` does, for data that are elsewhere."""
        model: Any = self
        known = getattr(model, "classes_", None)
        found = self._prepared(self._source(X, y, weight, offset))
        budget = model._budget(found.count)
        if model.checkpoint is not None and budget.features is not None:
            raise InvalidInputError("a checkpoint of a search for n_features is for data in memory; give a level")
        task = self._task_elsewhere(found, budget)
        model._forget()
        begin = known is None or model._same_classes(known)
        model._fit(task, budget, model._previous(task) if begin else None)
        return self

    def _source(self: Any, X: Any, y: Any, weight: Any, offset: Any) -> DataSource:
        """The samples, and what is known of their features before any is looked at."""
        if self.budget is not None or self.feature_cost is not None:
            raise InvalidInputError(
                "feature_cost and budget are for data in memory, not for Dask, files or a device; n_features is"
            )
        names, on_host = None, not is_remote(X)
        if self.device is not None:
            X, names = self._moved(X)
        source = source_at(X, y, weight, offset, Passes(type(self).__name__) if self.verbose else None)
        source.names = names if source.names is None else source.names
        for name in ("data_fingerprint_", "feature_names_in_", "fitted_on_"):  # the first takes the data themselves
            self.__dict__.pop(name, None)
        if is_on_device(X) and not on_host:
            self.fitted_on_ = place_of(X)
        self.n_features_in_ = source.n_features
        if source.names is not None:
            self.feature_names_in_ = np.asarray(source.names, dtype=object)
        return source

    def _moved(self: Any, X: Any) -> tuple[Any, list[str] | None]:
        """X on the device that was asked for, and the names of its columns; never somewhere else instead."""
        if is_dask(X) or isinstance(X, Chunked):
            raise InvalidInputError(f"device={self.device!r} is for arrays, not for {type(X).__name__}")
        if is_on_device(X):
            return on_device(X, self.device), None
        with naming_the_place(X):
            data = validate_data(self, X, **READING)
        names = getattr(self, "feature_names_in_", None)
        return on_device(data, self.device), None if names is None else [str(name) for name in names]

    def _is_to_be_elsewhere(self: Any, X: object) -> bool:
        """Whether the data are elsewhere, or are to be moved there."""
        return self.device is not None or is_remote(X)

    @abstractmethod
    def _prepared(self, source: DataSource) -> Prepared: ...

    def _task_elsewhere(self: Any, found: Prepared, budget: Budget) -> Task:
        """As `_task`, of data that are elsewhere."""
        standardization = self._border_elsewhere(found)
        form = replace(
            found.form, center=standardization.center, scale=standardization.scale if self.standardize else None
        )
        task: Task = self._new_task(standardization, found.source.model(form), budget, found.unit, found.total)
        return task

    def _border_elsewhere(self: Any, found: Prepared) -> Standardization:
        moments = found.statistics.moments if self.standardize else None
        source, form = found.source, found.form
        names = getattr(self, "feature_names_in_", None)
        return Standardization.of_moments(
            source.dtype, source.n_features, moments, form.fit_intercept, form.width, names
        )

    def inverse_transform(self, X: Any) -> Any:
        check_in_memory(X=X)
        return super().inverse_transform(X)  # type: ignore[misc]  # the selector's

    def on_host(self) -> Self:
        """The same model for NumPy arrays, where it was fitted to data on a device; coefficients are the same."""
        model = copy.copy(self)
        model.__dict__.pop("fitted_on_", None)
        return model


def where_it_is(method: Method) -> Method:
    """Decorate a method of X: of Dask's X it gives Dask's array, computed when asked for; on a device, one there.

    Of data in files it gives an array in memory, from one chunk after another.
    """

    @functools.wraps(method)
    def there(self: Any, X: Any, *rest: Any, **more: Any) -> Any:
        if not is_remote(X):
            if hasattr(self, "fitted_on_"):
                check_place(self, X)
            return method(self, X, *rest, **more)
        if any(one is not None for one in (*rest, *more.values())):
            raise InvalidInputError(f"{method.__name__} takes X alone here; add what is known to its result")
        check_is_fitted(self)
        if isinstance(X, Chunked):
            check_place(self, X)
            return _in_turn(self, method, X)
        if is_dask(X):
            check_place(self, X)
            return _mapped(self, method.__name__, X)
        return getattr(OnDevice(self, X), method.__name__)()

    return cast(Method, there)


def _mapped(model: Any, name: str, X: Any) -> Any:
    """A method of a fitted model on every block of rows."""
    blocks = _as_blocks(model, X)
    if name == "transform":
        return blocks[:, model.get_support(indices=True)]
    lean = _lean(model)
    example = getattr(lean, name)(np.zeros((1, model.n_features_in_), _float(blocks.dtype)))
    if example.ndim == 1:
        return blocks.map_blocks(_Block(lean, name), drop_axis=1, meta=example[:0], dtype=example.dtype)
    chunks = (blocks.chunks[0], (example.shape[1],))
    return blocks.map_blocks(_Block(lean, name), chunks=chunks, meta=example[:0], dtype=example.dtype)


def _in_turn(model: Any, method: Callable[..., Any], X: Chunked) -> Any:
    """A method of a fitted model on one chunk of a file after another."""
    if method.__name__ == "transform":
        raise InvalidInputError("transform takes X in memory: the columns of a file may not fit there")
    _check_features(model, X.shape[1], X.names)
    found = []
    for i in range(X.n_chunks):
        X.check_unchanged()
        X.bring(i)
        found.append(method(model, X.chunk(i)))
        X.leave(i)
    return np.concatenate(found)


@dataclass(frozen=True)
class _Block:
    """A method of a model, on one block of rows; it travels with every task."""

    model: Any
    name: str

    @property
    def __name__(self) -> str:  # by which Dask calls its tasks
        return f"levelprox-{self.name}"

    def __call__(self, rows: Any) -> Any:
        if rows.shape[0] == 0:
            return getattr(self.model, self.name)(np.zeros((1, rows.shape[1]), _float(rows.dtype)))[:0]
        return getattr(self.model, self.name)(rows)


def _as_blocks(model: Any, X: Any) -> Any:
    """X as a Dask array with all columns in every block."""
    _check_collection(X)
    columns = list(X.columns) if hasattr(X, "columns") else None
    _check_features(model, X.shape[1] if columns is None else len(columns), columns)
    X = X if columns is None else X.to_dask_array()
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def _lean(model: Any) -> Any:
    """The model without what is not needed to predict: history, names (which were checked), checkpoints."""
    kept = type(model)(**{**model.get_params(deep=False), "callback": None, "checkpoint": None, "resume": False})
    for name in ("coef_", "intercept_", "classes_", "scale_", "n_features_in_"):
        if hasattr(model, name):
            setattr(kept, name, getattr(model, name))
    return kept


def _check_features(model: Any, count: int, names: list[Any] | None) -> None:
    """Raise unless X has the features of the fit; a warning where only one of the two has names, as elsewhere."""
    known, called = getattr(model, "feature_names_in_", None), type(model).__name__
    if names is not None and not all(isinstance(name, str) for name in names):
        names = None
    if known is not None and names is not None and names != list(known):
        j = next((j for j, (a, b) in enumerate(zip(names, known, strict=False)) if a != b), min(count, len(known)))
        here, there = (f"{of[j]!r}" if j < len(of) else "nothing" for of in (names, known))
        raise InvalidInputError(
            f"The feature names should match those that were passed during fit: column {j} is {here}, and was {there}"
        )
    if count != model.n_features_in_:
        raise InvalidInputError(
            f"X has {count} features, but {called} is expecting {model.n_features_in_} features as input"
        )
    if known is not None and names is None:
        warn(f"X does not have valid feature names, but {called} was fitted with feature names", UserWarning)
    if known is None and names is not None:
        warn(f"X has feature names, but {called} was fitted without feature names", UserWarning)


def _check_together(X: Any, **rows: Any) -> None:
    """Raise unless what goes with rows is where they are, or in memory: nothing is moved or computed unasked."""
    if is_dask(X):
        _check_collection(X)
    if rows["y"] is None and not isinstance(X, Chunked):
        raise InvalidInputError("y must be given, got None")
    own = library_of(X) if is_on_device(X) else None
    for name, values in rows.items():
        if is_dask(values) and not is_dask(X):
            raise InvalidInputError(f"{name} is Dask's, and X is not: give {name}.compute()")
        if is_on_device(values) and own is None:
            raise InvalidInputError(f"{name} is on a device, and X is not: give an array of NumPy")
        if values is not None and not is_remote(values) and np.ndim(values) == 0:
            raise InvalidInputError(f"{name} must have one entry for each sample, got {values!r}")


def _check_collection(X: Any) -> None:
    ndim = getattr(X, "ndim", None)  # of something delayed it is delayed, too
    if not (isinstance(ndim, int) and ndim == 2):
        raise InvalidInputError(f"X must be a dask array or dataframe with two dimensions, got {type(X).__name__}")


def check_in_memory(**given: Any) -> None:
    """Raise where something is elsewhere that is to be in memory: nothing is moved or computed unasked."""
    for name, values in given.items():
        if is_remote(values):
            raise InvalidInputError(
                f"{name} must be in memory here, got {type(values).__name__} of {library_of(values)}"
            )


def elementwise(function: Callable[[Any], Any], values: Any) -> Any:
    """A function of values for each sample, there where they are."""
    if not is_dask(values):
        return function(values)
    if hasattr(values, "map_partitions"):
        return values.map_partitions(function, meta=values._meta)
    return values.map_blocks(function, dtype=np.float64, meta=np.empty(0))


def at_hand(*values: Any) -> tuple[Any, ...]:
    """The same in this process's memory, for a score, which is one number of all of them."""
    here = [one.compute() if is_dask(one) else one for one in values]
    places = map(array_namespace, here)
    return tuple(one if place is None else place.to_host(one) for one, place in zip(here, places, strict=True))


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


_FOLDS = 5


class ChoosingElsewhere:
    """A model whose budget is chosen, for data that are elsewhere."""

    def _choose_elsewhere(self, X: Any, y: Any, weight: Any, params: dict[str, Any], offset: Any = None) -> Self:
        """The fit of all data under the best budget of the grid."""
        model: Any = self
        folds = self._folds_elsewhere(params)
        source = model._source(X, y, weight, offset)
        found = model._prepared(source)
        budgets = model._grid(found.statistics.count, source.n_features)
        if budgets[0].ridge is not None:
            raise InvalidInputError(f"a grid of ridges is for data in memory; give one, got ridge={model.ridge!r}")
        if model._criterion == "cv":
            if found.statistics.count < folds:
                raise InvalidInputError(f"cv={folds} is more than the {found.statistics.count} samples there are")
            results, best = self._by_folds_elsewhere(source, budgets, folds)
        else:
            results, best = self._by_criterion_elsewhere(found, budgets)
        model._set_choice(budgets, results, best)
        model._warn_at_the_edge(found.statistics.count, source.n_features)
        model._fit_chosen(model._task_elsewhere(found, budgets[best]), budgets[best])
        return self

    def _folds_elsewhere(self: Any, params: dict[str, Any]) -> int:
        """How many folds; an error for what only data in memory have."""
        self._check_criterion()
        if self._criterion != "cv":
            check_likelihood(self._criterion, self._loss().name)
        elif self.scoring is not None:
            raise InvalidInputError("scoring is for data in memory; elsewhere the loss judges, scoring=None")
        given = [name for name, value in params.items() if value is not None]
        if given or not (self.cv is None or (isinstance(self.cv, Integral) and int(self.cv) >= 2)):
            what = given[0] if given else f"cv={self.cv!r}"
            raise InvalidInputError(f"{what} is for data in memory; elsewhere cv is a number of folds of at least 2")
        if self.checkpoint is not None:
            raise InvalidInputError("a checkpoint of a choice is for data in memory; the fit at one level can have one")
        return _FOLDS if self.cv is None else int(self.cv)

    def _by_folds_elsewhere(
        self: Any, source: DataSource, budgets: list[Budget], folds: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        with counting(self, folds, "fold") as follow:
            columns = list(follow(self._scored_elsewhere(source, budgets, folds)))
        results: tuple[dict[str, NDArray[Any]], int] = self._by_scores(
            budgets, list(map(list, zip(*columns, strict=True)))
        )
        return results

    def _scored_elsewhere(self: Any, source: DataSource, budgets: list[Budget], folds: int) -> Iterator[list[Scored]]:
        """For each fold, the scores of every candidate."""
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        for fold in range(folds):
            began, single = time.monotonic(), clone(self._single())
            single.set_params(**self._by_index(source.n_features))
            single.n_features_in_ = source.n_features
            found = self._prepared_fold(single, source.part(fold, folds, seed, False), fold)
            task = single._task_elsewhere(found, budgets[0])
            with quiet():
                fits = task.each(budgets)
            each = (time.monotonic() - began) / len(budgets)
            judge = source.part(fold, folds, seed, True).model(task.objective.form)
            may_diverge = is_classifier(self) and not task.objective.attained
            outcome = []
            for budget, fit in zip(budgets, fits, strict=True):
                x = task.standardization.inside(fit.coef.astype(np.float64), fit.intercept.astype(np.float64))
                count, solved = int(np.any(fit.coef, axis=0).sum()), fit.status.success
                diverging = diverges(task, budget, fit)
                outcome.append(
                    Scored(
                        -judge.value_and_gradient(x)[0],
                        count,
                        each,
                        solved or fit.status is Status.DIVERGING,
                        diverging=diverging,
                        by_label=judge.accuracy(x) if may_diverge else math.nan,
                        by_length=diverging,
                    )
                )
            yield outcome

    def _prepared_fold(self: Any, single: Any, rest: DataSource, fold: int) -> Prepared:
        """What a fold leaves to be fitted: samples of all classes."""
        try:
            found: Prepared = single._prepared(rest)
        except InvalidInputError as error:
            raise InvalidInputError(f"without fold {fold}: {error}") from None
        if is_classifier(self) and single.classes_.size < self.classes_.size:
            left = np.setdiff1d(self.classes_, single.classes_).tolist()
            raise InvalidInputError(f"without fold {fold}: no sample is left of class {left[0]!r}; use fewer folds")
        return found

    def _by_criterion_elsewhere(
        self: Any, found: Prepared, budgets: list[Budget]
    ) -> tuple[dict[str, NDArray[Any]], int]:
        loss = self._loss().name
        if loss == "gamma":
            raise InvalidInputError("criteria of gamma are for data in memory: they need the mean of log y")
        task = self._task_elsewhere(found, budgets[0])
        with quiet():
            fits = task.each(budgets)
        psi = np.array([fit.certificate.psi - fit.penalty for fit in fits])
        counts = np.array([int(np.any(fit.coef, axis=0).sum()) for fit in fits])
        width = found.form.width
        each = max(width - 1, 1) if found.form.softmax else width
        freedom = each * (counts + int(found.form.fit_intercept))
        diverging = np.array([diverges(task, budget, fit) for budget, fit in zip(budgets, fits, strict=True)])
        table: tuple[dict[str, NDArray[Any]], int] = self._by_price(
            budgets, psi, counts, freedom, diverging, found.total, found.source.n_features, 0.0
        )
        return table
