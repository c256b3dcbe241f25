"""What a fitted model says of X on a device: computed there, and handed out as arrays of the same library and device.

A model that was fitted on a device is asked about X on that device only: nothing is moved unasked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levelprox.designs.array_namespace import array_namespace
from levelprox.designs.device import DeviceDesign
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Logistic
from levelprox.losses.log_link import LogLink


def place_of(X: Any) -> str:
    """The library and device of X in words; that of NumPy's arrays is the host."""
    namespace = array_namespace(X)
    return "the host" if namespace is None else f"{namespace.xp.__name__} {namespace.device}"


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
        """The columns of the selected features."""
        return self._columns(self.model.get_support(indices=True))

    def decision_function(self) -> Any:
        """The margins, of shape (n,) or (n, n_classes)."""
        z = self._margins()
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self) -> Any:
        """Classes, or what is expected of y; classes that are words come back as an array of NumPy."""
        z, xp = self._margins(), self.namespace.xp
        if not hasattr(self.model, "classes_"):
            return xp.exp(z[:, 0]) if isinstance(self.model._loss(), LogLink) else z[:, 0]
        chosen = self.namespace.cast(z[:, 0] > 0, np.dtype(np.int64)) if z.shape[1] == 1 else xp.argmax(z, axis=1)
        classes = np.asarray(self.model.classes_)
        if classes.dtype.kind not in "biuf":
            return classes[self.namespace.to_host(chosen)]
        return self.namespace.take(self.namespace.to_device(classes), chosen, 0)

    def predict_proba(self) -> Any:
        """Probability of each class."""
        assert isinstance(self.model._loss(), Logistic)
        z, xp = self._margins(), self.namespace.xp
        if z.shape[1] == 1:
            p = _expit(xp, z[:, 0])
            return xp.stack([_expit(xp, -z[:, 0]), p], axis=1)
        if self.model._softmax():
            e = xp.exp(z - xp.amax(z, axis=1)[:, None])
            return e / e.sum(axis=1)[:, None]
        log_p = -_softplus(xp, -z)
        p = xp.exp(log_p - xp.amax(log_p, axis=1)[:, None])
        return p / p.sum(axis=1)[:, None]

    def predict_log_proba(self) -> Any:
        """Logarithms of `predict_proba`."""
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
    """log(1 + exp(z)), without overflow."""
    return xp.where(z > 0, z, 0 * z) + xp.log1p(xp.exp(-xp.abs(z)))
