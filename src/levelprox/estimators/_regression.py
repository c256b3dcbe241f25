"""What regressors share: offsets and exposures, predictions, the unit of the coefficients."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from levelprox._typing import FloatArray, Vector
from levelprox._validation import option, real_array
from levelprox.backends._base import DataSource
from levelprox.backends.dispatch import is_remote
from levelprox.backends.partition import Form
from levelprox.backends.statistics import Statistics
from levelprox.estimators._base import SparseLinearModel
from levelprox.estimators._data import Prepared, RemoteSamples, elementwise, in_memory
from levelprox.estimators._input import one_each
from levelprox.estimators._names import REGRESSION_LOSSES, loss_of
from levelprox.estimators._parameters import boolean
from levelprox.estimators._prediction import dispatched
from levelprox.estimators._standardization import Standardization
from levelprox.exceptions import InvalidInputError
from levelprox.losses import LogLink, Loss, Squared
from levelprox.objectives import LinearModel

_LEAST = 1e-152  # of y: squares, and their sums, are numbers


@dataclass(eq=False, repr=False)
class Regression(RegressorMixin, SparseLinearModel):
    """A regressor's side of a sparse linear model."""

    loss: str | Loss = "squared"

    _reading_of_y = {"y_numeric": True}  # noqa: RUF012

    @dispatched
    def predict(self, X: object, offset: ArrayLike | None = None, exposure: ArrayLike | None = None) -> FloatArray:
        """What is expected of y: z, or exp(z) for poisson and gamma.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        offset, exposure : array-like of shape (n_samples,), optional
            As in `fit`; there is nothing to add unless they are given.
        """
        z = self._margins(X)[:, 0]
        known = self._known(offset, exposure, z.size)
        if known is not None:
            z = (z + known).astype(z.dtype)
        if not isinstance(self.loss_, LogLink):
            return z
        with np.errstate(over="ignore"):
            return np.exp(z)

    def score(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """R²; for poisson and gamma D², the share of the deviance that is explained.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As in `fit`.
        """
        from sklearn.metrics import d2_tweedie_score, r2_score

        y, predicted, sample_weight = in_memory(y, self.predict(X, offset, exposure), sample_weight)
        loss = self.loss_
        if not isinstance(loss, LogLink):
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        power = 1 if loss.kind == "count" else 2
        return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=power))

    def _remote_offset(self, offset: Any, exposure: Any) -> Any:
        """Return what is added to the margins of remote samples; it is checked where it is."""
        if exposure is None:
            return offset
        if not isinstance(self.loss_, LogLink):
            raise InvalidInputError(f"exposure is for poisson and gamma, not for loss={self.loss!r}; use offset")
        if offset is not None and is_remote(exposure) != is_remote(offset):
            raise InvalidInputError("exposure and offset must be arrays of the same library")
        known = elementwise(_log_exposure, exposure)
        return known if offset is None else known + (offset if is_remote(offset) else np.asarray(offset))

    @property
    def loss_(self) -> Loss:
        """Loss, as an object of `levelprox.losses`."""
        return loss_of(self.loss, REGRESSION_LOSSES)

    def _encode(self, y: NDArray[Any], weight: Vector | None) -> tuple[NDArray[Any], Vector | None, float, int]:
        loss = self.loss_
        y = loss.check_targets(y, "y")
        return y, weight, _unit(loss, y, weight), 1

    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        loss = self.loss_
        statistics = samples.statistics(loss, False, boolean("standardize", self.standardize))
        form = Form(loss, boolean("fit_intercept", self.fit_intercept))
        unit = _unit_of_source(loss, samples.source, statistics)
        return samples.prepared(self, form, statistics, statistics.total, unit)

    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> LinearModel:
        known = self._known(more.get("offset"), more.get("exposure"), y.size)
        return LinearModel(standardization.design, y, self.loss_, weight, known, standardization.fit_intercept)

    def _known(self, offset: ArrayLike | None, exposure: ArrayLike | None, n: int) -> Vector | None:
        """What is known to add to each margin."""
        known = None if offset is None else one_each("offset", offset, n)
        if exposure is None:
            return known
        if not isinstance(self.loss_, LogLink):
            raise InvalidInputError(f"exposure is for poisson and gamma, not for loss={self.loss!r}; use offset")
        times = one_each("exposure", exposure, n)
        if np.any(times <= 0):
            i = int(np.argmax(times <= 0))
            raise InvalidInputError(f"exposure must be positive, got {times[i]:g} at index {i}")
        return np.log(times) if known is None else known + np.log(times)

    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        z = self._margins(X)[:, 0].astype(np.float64)
        known = self._known(more.get("offset"), more.get("exposure"), z.size)
        return self.loss_.value(z if known is None else z + known, y, weight)

    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_ = coef[0]
        self.intercept_ = intercept[0]

    @property
    def takes_zeros(self) -> bool:
        """Not for gamma: its targets are positive."""
        return bool(getattr(self.loss, "name", option(self.loss)) != "gamma")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(InvalidInputError):  # a loss that `fit` will refuse
            tags.target_tags.positive_only = self.loss_.kind in ("count", "positive")
        return tags


def _log_exposure(exposure: Any) -> Any:
    """log(exposure) of some samples, of NumPy or of a library that has `log` as a method; they must be positive."""
    own = exposure if hasattr(exposure, "log") else np.asarray(real_array("exposure", exposure), np.float64)
    bad = ~(own > 0)
    if bad.any():
        i = int(bad.nonzero()[0].ravel()[0])
        raise InvalidInputError(f"exposure must be positive, got {float(own[i]):g} at index {i}")
    return own.log() if hasattr(own, "log") else np.log(own)


def _unit_of_source(loss: Loss, source: DataSource, statistics: Statistics) -> float:
    """Return the same for remote data."""
    if isinstance(loss, LogLink):
        return 1.0
    size = statistics.largest or 1.0
    _check_size(size)
    squared = isinstance(loss, Squared)
    unit = float(statistics.y_moments.deviation[0]) if squared else source.spread(statistics.total)
    return unit if unit > 0 else size


def _check_size(size: float) -> None:
    if not _LEAST < size < 1 / _LEAST:
        raise InvalidInputError(
            f"y is of the size of {size:.3g}, and squares of that are beyond float64; take another unit"
        )


def _unit(loss: Loss, y: Vector, weight: Vector | None) -> float:
    """The unit of the coefficients of standardised features."""
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
