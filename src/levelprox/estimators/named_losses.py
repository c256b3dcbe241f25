"""Losses by name, those that an estimator has a use for."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np

from levelprox._validation import option
from levelprox.exceptions import InvalidInputError
from levelprox.losses import LOSS_TYPES, Loss, loss_by_name

CLASSIFICATION_LOSSES = ("logistic", "squared_hinge", "hinge", "sigmoid")
REGRESSION_LOSSES = ("squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy")
#: What losses are called elsewhere.
_OTHER_NAMES = {
    "squared": ("mse", "squared_error", "squared_loss", "least_squares", "ls", "l2", "ols", "gaussian", "normal"),
    "absolute": ("mae", "absolute_error", "l1", "lad"),
    "quantile": ("pinball",),
    "logistic": ("log_loss", "log", "logit", "binomial", "bernoulli", "cross_entropy", "deviance"),
    "hinge": ("svm",),
}
_OF_ALL_CLASSES = ("softmax", "multinomial")


def loss_of(loss: object, names: tuple[str, ...]) -> Loss:
    """The loss asked for, one of `names` or an object of their kind."""
    if isinstance(loss, Loss) and (loss.kind == "margin") == (names is CLASSIFICATION_LOSSES):
        return loss
    if isinstance(loss, str) and option(loss) in names:
        return loss_by_name(option(loss))
    raise InvalidInputError(f"loss must be one of {', '.join(names)} or such a Loss, got {loss!r}{_hint(loss, names)}")


def _hint(loss: object, names: tuple[str, ...]) -> str:
    if isinstance(loss, type):
        return "; did you forget ()?"
    if isinstance(loss, int | float | np.number):
        return f"; a number of features is given as n_features={loss}"
    if option(loss) in _OF_ALL_CLASSES and names is CLASSIFICATION_LOSSES:
        return "; use loss='logistic', multi_class='softmax'"
    name = loss.name if isinstance(loss, Loss) else str(option(loss))
    if name in {kind.name for kind in LOSS_TYPES} | {*_OF_ALL_CLASSES}:
        other = "regression: SparseRegressor" if names is CLASSIFICATION_LOSSES else "classification: SparseClassifier"
        return f", which is for {other}"
    near = [one for one in names if name.lower() in _OTHER_NAMES.get(one, ())]
    near = near or get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
