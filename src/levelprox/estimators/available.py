"""Methods and attributes that are not always there: the error says why, and what to do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, NoReturn, cast

#: What a fit of all data sets and a stream cannot: it no longer has the data.
OF_A_FIT = (
    *("certificate_", "multiplier_", "status_", "message_", "history_", "constraint_", "data_fingerprint_"),
    *("budget_", "feature_cost_"),
)
_OF_ANY_FIT = ("coef_", "intercept_", "classes_", "scale_", "level_", "n_iter_", "n_features_in_")
_OF_A_CHOICE = ("cv_results_", "best_index_", "best_params_", "best_score_")


class _Available:
    """A method that is there where a check passes.

    Parameters
    ----------
    check : callable
        Of the object; raises an AttributeError that says why the method is not there, or returns False.
    method : callable
    """

    def __init__(self, check: Callable[[Any], bool], method: Callable[..., Any]) -> None:
        functools.update_wrapper(cast(Any, self), method)
        self.check, self.method = check, method

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is not None:
            self._check(model)
            return MethodType(self.method, model)

        @functools.wraps(self.method)
        def unbound(model: Any, *args: Any, **options: Any) -> Any:
            self._check(model)
            return self.method(model, *args, **options)

        return unbound

    def _check(self, model: Any) -> None:
        called, why = f"{type(model).__name__} has no {self.method.__name__}", ""
        try:
            there = self.check(model)
        except Exception as error:
            there, why = False, f": {error}"
        if not there:
            raise AttributeError(f"{called} here{why}")


def available_if(check: Callable[[Any], bool]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a method that is there where `check` passes.

    As scikit-learn's, but the reason that the check gives is the message of the error, not its cause.
    """
    return lambda method: _Available(check, method)


def missing_attribute(model: Any, name: str) -> NoReturn:
    """Raise the AttributeError of an estimator that has no such attribute, with the reason where there is one."""
    kind = type(model)
    if hasattr(kind, name):  # a property or method of the class, which raised its own error
        object.__getattribute__(model, name)
    plain = f"{kind.__name__!r} object has no attribute {name!r}"
    streamed = "n_samples_seen_" in vars(model)
    if name in OF_A_FIT and streamed:
        raise AttributeError(
            f"{plain}: after partial_fit the data of earlier batches are gone, and nothing can be recomputed from "
            f"them. fit(X, y) on all data sets {name}"
        )
    fitted = "coef_" in vars(model)
    if name == "constraint_" and fitted:
        raise AttributeError(f"{plain}: it is for fits under a level, and this one has n_features")
    choice = name in _OF_A_CHOICE
    if choice and not hasattr(kind, "_choose_and_fit"):
        raise AttributeError(f"{plain}: {kind.__name__}CV chooses a budget and has it")
    if not fitted and (choice or name in OF_A_FIT or name in _OF_ANY_FIT):
        raise AttributeError(f"{plain}: it is not fitted yet. Call fit(X, y) first")
    raise AttributeError(plain, name=name, obj=model)
