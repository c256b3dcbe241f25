"""partial_fit: a model updated from batches, standardised by the moments of all rows seen so far."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Self

import numpy as np

from levelprox._typing import Vector
from levelprox._validation import positive
from levelprox.designs import RunningMoments
from levelprox.estimators._base import SparseLinearModel
from levelprox.estimators._callbacks import OF_A_FIT
from levelprox.estimators._data import RemoteSamples, Samples
from levelprox.estimators._features import Standardization
from levelprox.estimators._fit import Task
from levelprox.estimators._parameters import Budget, boolean, constraint_of
from levelprox.exceptions import InvalidInputError, warn
from levelprox.objectives import LinearModel, Model
from levelprox.objectives._multiclass import ByClass
from levelprox.online.stream import Stream


def counts_features(model: Streaming) -> bool:
    """Whether the budget is a number of features, or pays for one; the error says why not."""
    if model.budget is not None or model.feature_cost is not None:
        raise AttributeError("partial_fit counts features: give n_features, not a budget and feature_cost")
    if model.level is None or (isinstance(model.level, Real) and model.feature_weight is None):
        capped = model.level is None or math.isfinite(constraint_of(model.constraint, 1.0).cap)
        if capped:
            return True
    raise AttributeError(
        "partial_fit counts features: give n_features, or a level of a constraint with a cap, such as 'mcp', without "
        "feature_weight"
    )


@dataclass(eq=False, repr=False)
class Streaming(SparseLinearModel):
    """A model for one budget, which also learns from batches; the subclasses say how a batch is read."""

    _: KW_ONLY
    warm_start: bool = False
    memory: float | None = None

    def _prepare_fit(self, samples: Samples | RemoteSamples) -> tuple[Task, Budget, Vector | None]:
        """Return the task of a fit, its budget, and x of the last fit where that is to begin with."""
        known = getattr(self, "classes_", None)
        prepared = self._prepare(samples)
        budget = self._budget(self._sample_count(samples))
        if isinstance(samples, RemoteSamples) and self.checkpoint is not None and budget.features is not None:
            raise InvalidInputError("a checkpoint of a search for n_features is for data in memory; give a level")
        task = self._task(prepared, budget)
        for name in ("_stream", "n_samples_seen_"):  # of an earlier stream
            self.__dict__.pop(name, None)
        same = known is None or self._same_classes(known)
        return task, budget, self._previous(task) if same else None

    def _previous(self, task: Task) -> Vector | None:
        """Return x of the last fit for `warm_start`; None without one, or where its shape differs."""
        if boolean("warm_start", self.warm_start) and self.checkpoint is not None:
            raise InvalidInputError(
                "warm_start begins at the last fit, a checkpoint at the last state: give only one of them"
            )
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        coef = np.atleast_2d(self.coef_)
        if coef.shape != (task.standardization.width, task.standardization.scale.size):
            warn(
                f"warm_start: the last fit had coefficients of shape {coef.shape}, this one has "
                f"{(task.standardization.width, task.standardization.scale.size)}; the fit starts without it"
            )
            return None
        return task.standardization.inside(self.coef_, self.intercept_)

    def _take_in(
        self, X: Any, weight: Vector | None, width: int, objective: Callable[[Standardization], Model]
    ) -> Self:
        """Add a batch; nothing changes if it raises an error."""
        design = self._design(X)
        d = design.shape[1]
        settings = self._settings()
        if hasattr(self, "n_samples_seen_") and not hasattr(self, "_stream"):
            raise InvalidInputError(
                "this model was read from a file, without the state of its stream: start "
                "another one, by `fit` or with a clone"
            )
        stream, moments, begun_with = copy.deepcopy(getattr(self, "_stream", None)) or (*self._begun(d), settings)
        for name, value in settings.items():
            if value != begun_with[name]:
                raise InvalidInputError(
                    f"the stream began with {name}={begun_with[name]}, now it is {value}: begin another one, by `fit` "
                    "or with a clone"
                )
        before = self._center_and_scale(moments)
        moments.update(design, weight)
        center, scale = self._center_and_scale(moments)
        standardization = Standardization(design, center, scale, boolean("fit_intercept", self.fit_intercept), width)
        model = self._held(objective(standardization))
        if scale is not None and before[1] is not None and stream.x is not None:
            shift = None if center is None else (center - before[0]) / before[1]
            stream.rescale(scale / before[1], shift)
        x = stream.step(model, float(design.shape[0] if weight is None else weight.sum()))
        self._set_coefficients(*standardization.outside(x))
        self._stream = stream, moments, settings
        self.scale_ = standardization.scale
        self.level_ = float(stream.k)
        self.ridge_ = self._ridge() or 0.0
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1 if hasattr(self, "n_samples_seen_") else 1
        self.n_samples_seen_ = moments.total
        for name in OF_A_FIT:
            self.__dict__.pop(name, None)
        return self

    def _held(self, model: Model) -> Model:
        """The model of a batch with the ridge; "auto" is none."""
        ridge = self._ridge()
        if not ridge:
            return model
        if not boolean("standardize", self.standardize):
            raise InvalidInputError("partial_fit takes a ridge with standardize=True: it needs deviations of X")
        assert isinstance(model, LinearModel | ByClass)
        weight = self._feature_weight(self._budget(math.inf), self.n_features_in_)
        return model.ridged(np.where(weight == 0, 0.0, ridge) if weight is not None else ridge)

    def _settings(self) -> dict[str, str]:
        """What must not change within a stream, as it would be printed."""
        names = ("loss", "n_features", "level", "constraint", "feature_weight", "fit_intercept", "standardize")
        return {name: repr(getattr(self, name)) for name in (*names, "keep", "ridge", "positive", "memory")}

    def _begun(self, d: int) -> tuple[Stream, RunningMoments]:
        k = self._most_features()
        weight = self._feature_weight(self._budget(math.inf), d)
        keep = None if weight is None else np.flatnonzero(weight == 0)
        asked = self._positive(d)
        signs = np.flatnonzero(np.broadcast_to(asked, d)) if np.any(asked) else None
        memory = math.inf if self.memory is None else positive("memory", self.memory)
        return Stream(k, keep, signs, memory), RunningMoments(d)

    def _most_features(self) -> int:
        """k; of a level, as many whole features as it pays for. Of a stream, there is no end of samples."""
        budget = self._budget(math.inf)
        if budget.features is not None:
            return budget.features
        return int(budget.value / constraint_of(self.constraint, 1.0).cap)

    def _center_and_scale(self, moments: RunningMoments) -> tuple[Any, Any]:
        """c and s of all rows so far; None where nothing is moved or scaled."""
        if not boolean("standardize", self.standardize):
            return None, None
        if boolean("fit_intercept", self.fit_intercept):
            return moments.mean, moments.scale
        return None, moments.magnitude
