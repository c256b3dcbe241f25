"""Remote data: on a Dask cluster, in files (`Chunked`), on a GPU; weights of classes, and units of targets.

Remote data stay where they are. They are described by statistics first, and the objective is then evaluated in rounds.
Predictions for X on a device are computed there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from levelprox._typing import Vector
from levelprox._validation import option, real
from levelprox.backends import DataSource, RemoteObjective, source_of
from levelprox.backends.array_namespace import array_namespace, on_device
from levelprox.backends.device_design import DeviceDesign
from levelprox.backends.partition import Form, Statistics
from levelprox.designs import is_dask, is_on_device, is_remote, library_of
from levelprox.designs.chunked import Chunked
from levelprox.estimators._features import Standardization
from levelprox.estimators._input import READING, Prepared, naming_the_place
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Logistic, LogLink, Loss, Squared
from levelprox.report.progress import Passes

_SMALLEST_TARGET = 1e-152  # largest |y|: squares, and their sums, are numbers


class RemoteFold(NamedTuple):
    """The samples of one of several folds of remote data, or all others.

    Which fold a sample is in depends on the seed, its partition and its position there alone.
    """

    fold: int
    folds: int
    seed: int
    held_out: bool


@dataclass(frozen=True, eq=False)
class RemoteSamples:
    """Samples that are not in the memory of this process.

    Attributes
    ----------
    source : DataSource
    """

    source: DataSource
    _statistics: dict[tuple[bool, bool], Statistics] = field(default_factory=dict)
    _weighted: dict[bytes, RemoteSamples] = field(default_factory=dict)

    def statistics(self, loss: Loss, labels: bool, with_moments: bool) -> Statistics:
        """Return statistics of X and y, in one pass over the data the first time; X and y are checked on the way."""
        key = labels, with_moments
        if key not in self._statistics:
            self._statistics[key] = self.source.statistics(loss, labels, with_moments)
        return self._statistics[key]

    def weighted(self, classes: NDArray[Any], factors: Vector) -> RemoteSamples:
        """Return the same samples, their weights multiplied by a factor for their class."""
        key = factors.tobytes()
        if key not in self._weighted:
            self._weighted[key] = RemoteSamples(self.source.weighted(classes, factors))
        return self._weighted[key]

    def part(self, rows: RemoteFold) -> RemoteSamples:
        """Return some of the samples."""
        return RemoteSamples(self.source.part(*rows))

    @property
    def _known(self) -> Statistics:
        """Statistics that were computed first; preparing the samples computes some."""
        return next(iter(self._statistics.values()))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and of features."""
        return self._known.count, self.source.n_features

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return self._known.total

    @property
    def classes(self) -> NDArray[Any]:
        """Classes of the samples that have a weight."""
        return self._known.classes

    @property
    def rarest(self) -> float:
        """Number of samples of the rarest class, by their weights."""
        return float(np.min(self._known.class_weights, initial=np.inf))

    def prepared(self, estimator: Any, form: Form, statistics: Statistics, total: float, unit: float = 1.0) -> Prepared:
        """Return the samples with known classes, weights and units.

        Parameters
        ----------
        estimator : estimator
        form : Form
            Of the objective, without a standardization.
        statistics : Statistics
            Of these samples.
        total, unit : float
            As in `Prepared`.
        """
        source, standardize = self.source, estimator.standardize
        names = getattr(estimator, "feature_names_in_", None)

        def standardization() -> Standardization:
            moments = statistics.moments if standardize else None
            shape = source.dtype, source.n_features
            return Standardization.of_moments(*shape, moments, form.fit_intercept, form.n_outputs, names)

        def objective(units: Standardization) -> RemoteObjective:
            return source.model(replace(form, center=units.center, scale=units.scale if standardize else None))

        return Prepared(unit, total, standardization, objective)


def remote_samples(estimator: Any, X: Any, y: Any, weight: Any, offset: Any) -> RemoteSamples:
    """Return samples of X that is remote, or moved to `device`; the estimator gets the attributes of its features."""
    if estimator.budget is not None or estimator.feature_cost is not None:
        raise InvalidInputError(
            "feature_cost and budget are for data in memory, not for Dask, files or a device; n_features is"
        )
    names, on_host = None, not is_remote(X)
    if estimator.device is not None:
        X, names = _moved(estimator, X)
    _check_together(X, y=y, sample_weight=weight, offset=offset)
    source = source_of(X, y, weight, offset, progress=Passes(type(estimator).__name__) if estimator.verbose else None)
    assert source is not None
    source.names = names if source.names is None else source.names
    for name in ("data_fingerprint_", "feature_names_in_", "fitted_on_"):  # the first takes the data themselves
        estimator.__dict__.pop(name, None)
    if is_on_device(X) and not on_host:
        estimator.fitted_on_ = place_of(X)
    estimator.n_features_in_ = source.n_features
    if source.names is not None:
        estimator.feature_names_in_ = np.asarray(source.names, dtype=object)
    return RemoteSamples(source)


def _moved(estimator: Any, X: Any) -> tuple[Any, list[str] | None]:
    """Return X on the device of the estimator, and the names of its columns."""
    device = estimator.device
    if is_dask(X) or isinstance(X, Chunked):
        raise InvalidInputError(f"device={device!r} is for arrays, not for {type(X).__name__}")
    if is_on_device(X):
        return on_device(X, device), None
    with naming_the_place(X):
        data = validate_data(estimator, X, **READING)
    names = getattr(estimator, "feature_names_in_", None)
    return on_device(data, device), None if names is None else [str(name) for name in names]


def place_of(X: Any) -> str:
    """Return the library and device of X in words; NumPy arrays are on the host."""
    namespace = array_namespace(X)
    return "the host" if namespace is None else f"{namespace.xp.__name__} {namespace.device}"


def _check_together(X: Any, **rows: Any) -> None:
    """Raise unless y, weights and offsets are where X is, or in memory: nothing is moved or computed implicitly."""
    if is_dask(X):
        check_collection(X)
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


def check_collection(X: Any) -> None:
    """Raise unless a Dask X has two dimensions."""
    ndim = getattr(X, "ndim", None)  # of something delayed it is delayed, too
    if not (isinstance(ndim, int) and ndim == 2):
        raise InvalidInputError(f"X must be a dask array or dataframe with two dimensions, got {type(X).__name__}")


def elementwise(function: Callable[[Any], Any], values: Any) -> Any:
    """Return a function of values for each sample, of the library of the values."""
    if not is_dask(values):
        return function(values)
    if hasattr(values, "map_partitions"):
        return values.map_partitions(function, meta=values._meta)
    return values.map_blocks(function, dtype=np.float64, meta=np.empty(0))


def in_memory(*values: ArrayLike | None) -> tuple[Any, ...]:
    """Return the values as arrays of NumPy, for a score, which is one number for all of them."""
    here: list[Any] = [one.compute() if is_dask(one) else one for one in values]  # type: ignore[union-attr]
    places = map(array_namespace, here)
    return tuple(one if place is None else place.to_host(one) for one, place in zip(here, places, strict=True))


def with_class_weight(given: object, classes: NDArray[Any], y: NDArray[Any], weight: Vector | None) -> Vector:
    """Return the weights of samples times those of their classes.

    Parameters
    ----------
    given : dict or "balanced"
        `class_weight` of a classifier.
    classes : ndarray
        Sorted; those of y.
    y : ndarray of shape (n,)
    weight : ndarray of shape (n,), optional
    """
    places = np.searchsorted(classes, y)
    own = np.ones(y.size) if weight is None else weight
    factors = class_factors(given, classes, np.asarray(np.bincount(places, own), np.float64))
    with np.errstate(over="ignore", under="ignore"):
        product = own * factors[places]
        left = np.bincount(places, product)
        if not np.all(np.isfinite(left)) or np.min(left[places]) == 0:  # of these the ratios may still be in range
            product = (own / own.max()) * (factors / factors.max())[places]
            left = np.bincount(places, product)
    if np.min(left[places]) == 0:
        empty = classes.tolist()[places[np.argmin(left[places])]]
        raise InvalidInputError(f"class_weight leaves class {empty!r} no weight")
    return np.asarray(product)


def class_factors(given: object, classes: NDArray[Any], totals: Vector) -> Vector:
    """Return the factors on the weights of the samples of each class; `totals` are the sums of these weights."""
    if option(given) == "balanced":
        return np.asarray(totals.sum() / (classes.size * totals), np.float64)
    if not isinstance(given, dict):
        raise InvalidInputError(f"class_weight must be a dict, 'balanced' or None, got {given!r}")
    known = classes.tolist()
    unknown = [key for key in given if key not in known]
    if unknown and any(c not in given for c in known):  # else it is of a class that these samples do not have
        raise InvalidInputError(f"class_weight has {unknown[0]!r}, which is not one of the classes {known}")
    factors = np.array([real(f"class_weight[{c!r}]", given.get(c, 1.0)) for c in known])
    if np.any(factors <= 0) or not np.all(np.isfinite(factors)):
        bad = known[int(np.argmax(~((factors > 0) & np.isfinite(factors))))]
        raise InvalidInputError(f"class_weight must be positive and finite, got {given[bad]!r} for class {bad!r}")
    return factors


def unit_of_source(loss: Loss, source: DataSource, statistics: Statistics) -> float:
    """Return the unit of the coefficients of standardised features, for remote data."""
    if isinstance(loss, LogLink):
        return 1.0
    size = statistics.largest or 1.0
    _check_size(size)
    squared = isinstance(loss, Squared)
    unit = float(statistics.y_moments.deviation[0]) if squared else source.spread(statistics.total)
    return unit if unit > 0 else size


def _check_size(size: float) -> None:
    if not _SMALLEST_TARGET < size < 1 / _SMALLEST_TARGET:
        raise InvalidInputError(
            f"y is of the size of {size:.3g}, and squares of that are beyond float64; take another unit"
        )


def unit_of(loss: Loss, y: Vector, weight: Vector | None) -> float:
    """Return the unit of the coefficients of standardised features."""
    if isinstance(loss, LogLink):
        return 1.0
    share = np.full(y.size, 1 / y.size) if weight is None else weight / weight.sum()
    size = float(np.max(np.abs(y), initial=0.0, where=share > 0)) or 1.0
    _check_size(size)
    scaled = np.where(share > 0, y, 0.0) / size
    if isinstance(loss, Squared):
        unit = float(np.sqrt(np.sum(share * (scaled - np.sum(share * scaled)) ** 2)))
    else:
        order = np.argsort(scaled, kind="stable")
        middle = scaled[order][np.searchsorted(np.cumsum(share[order]), 0.5)]
        unit = float(np.sum(share * np.abs(scaled - middle)))
    return unit * size if unit > 0 else size


def check_place(model: Any, X: Any) -> None:
    """Raise where X is on another device, or of another library, than the data that the model was fitted to."""
    fitted, given = getattr(model, "fitted_on_", "the host"), place_of(X)
    if fitted != given:
        instead = "" if fitted == "the host" else ", or take model.on_host(), which predicts for NumPy arrays"
        raise InvalidInputError(f"the model was fitted to data on {fitted}, but X is on {given}: move X there{instead}")


class OnDevice:
    """The methods of a fitted model of which X is on a device.

    Parameters
    ----------
    model : SparseLinearModel
        Fitted.
    X : tensor of torch or array of cupy of shape (n, d)
    """

    def __init__(self, model: Any, X: Any) -> None:
        check_place(model, X)
        namespace = array_namespace(X)
        assert namespace is not None
        if len(X.shape) != 2 or int(X.shape[1]) != model.n_features_in_:
            raise InvalidInputError(
                f"X has shape {tuple(X.shape)}, but {type(model).__name__} is expecting {model.n_features_in_} "
                "features as input"
            )
        design = DeviceDesign(X, namespace=namespace)
        design.check_finite()
        self.model, self.X, self.namespace = model, X, namespace
        self.dtype = design.dtype

    def transform(self) -> Any:
        """Return the columns of the selected features."""
        return self._columns(self.model.get_support(indices=True))

    def decision_function(self) -> Any:
        """Return the margins, of shape (n,) or (n, n_classes)."""
        z = self._margins()
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self) -> Any:
        """Return classes, or expected values of y; classes that are strings as an array of NumPy."""
        z, xp = self._margins(), self.namespace.xp
        if not hasattr(self.model, "classes_"):
            return xp.exp(z[:, 0]) if isinstance(self.model.loss_, LogLink) else z[:, 0]
        chosen = self.namespace.cast(z[:, 0] > 0, np.dtype(np.int64)) if z.shape[1] == 1 else xp.argmax(z, axis=1)
        classes = np.asarray(self.model.classes_)
        if classes.dtype.kind not in "biuf":
            return classes[self.namespace.to_host(chosen)]
        return self.namespace.take(self.namespace.to_device(classes), chosen, 0)

    def predict_proba(self) -> Any:
        """Return the probability of each class."""
        assert isinstance(self.model.loss_, Logistic)
        z, xp = self._margins(), self.namespace.xp
        if z.shape[1] == 1:
            p = _expit(xp, z[:, 0])
            return xp.stack([_expit(xp, -z[:, 0]), p], axis=1)
        if self.model.multi_class_ == "softmax":
            e = xp.exp(z - xp.amax(z, axis=1)[:, None])
            return e / e.sum(axis=1)[:, None]
        log_p = -_softplus(xp, -z)
        p = xp.exp(log_p - xp.amax(log_p, axis=1)[:, None])
        return p / p.sum(axis=1)[:, None]

    def predict_log_proba(self) -> Any:
        """Return logarithms of `predict_proba`."""
        return self.namespace.xp.log(self.predict_proba())

    def _margins(self) -> Any:
        model, namespace = self.model, self.namespace
        coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        used = np.flatnonzero(np.any(coef, axis=0))
        known = namespace.to_device(np.asarray(intercept, self.dtype))
        if not used.size:
            return namespace.zeros((int(self.X.shape[0]), coef.shape[0]), self.dtype) + known
        part = namespace.to_device(np.ascontiguousarray(coef[:, used].T.astype(self.dtype)))
        return namespace.xp.matmul(self._columns(used), part) + known

    def _columns(self, features: Any) -> Any:
        if self.namespace.csr_parts(self.X) is not None:
            return DeviceDesign(self.X).gathered(np.asarray(features, np.intp))
        return self.namespace.take(self.X, self.namespace.to_device(np.asarray(features, np.int64)), 1)


def _expit(xp: Any, z: Any) -> Any:
    return xp.exp(-_softplus(xp, -z))


def _softplus(xp: Any, z: Any) -> Any:
    """Return log(1 + exp(z)), without overflow."""
    return xp.where(z > 0, z, 0 * z) + xp.log1p(xp.exp(-xp.abs(z)))
