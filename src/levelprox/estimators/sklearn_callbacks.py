"""scikit-learn's callbacks (`set_callbacks`, since 1.9), and their absence before.

A fit is a task whose subtasks are its steps; where the budget is chosen, it has two: the search, whose subtasks are the
folds or fits, and the fit of all data. How many steps there will be is not known in advance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    with_callbacks = None

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""


__all__ = ["CallbackSupportMixin", "Steps", "each_as_task", "steps_of", "told_to_callbacks"]

Fit = TypeVar("Fit", bound=Callable[..., Any])
Item = TypeVar("Item")


def told_to_callbacks(fit: Fit) -> Fit:
    """Decorate `fit(self, X, y, sample_weight=None, ...)`: its callbacks hear of its begin and its end."""
    if with_callbacks is None:
        return fit

    @functools.wraps(fit)
    def told(self: Any, X: object, y: object, sample_weight: object = None, *args: Any, **params: Any) -> Any:
        if not hasattr(self, "_skl_callbacks"):
            return fit(self, X, y, sample_weight, *args, **params)
        given = {
            "estimator": self,
            "X": X,
            "y": y,
            "metadata": None if sample_weight is None else {"sample_weight": sample_weight},
        }
        root = self._init_callback_context(max_subtasks=self._n_subtasks)
        root.call_on_fit_task_begin(**given)
        self._told_of = given
        try:
            fitted = fit(self, X, y, sample_weight, *args, **params)
        finally:
            del self._told_of
        root.call_on_fit_task_end(**given, reconstruction_attributes={})
        return fitted

    return with_callbacks(told)  # type: ignore[no-any-return]


class Steps:
    """The steps of a fit, as subtasks of a context.

    Parameters
    ----------
    estimator : estimator
        Being fitted.
    context : sklearn.callback.CallbackContext
        Of the fit.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self.given, self.context = estimator._told_of, context
        self.step = self._begun()

    def end(self, attributes: Callable[[], dict[str, Any]] | None) -> bool:
        """A step has ended, the next begins; whether a callback wants the fit to stop.

        Parameters
        ----------
        attributes : callable or None
            Gives what the estimator needs in order to predict as of this step, where that is known.
        """
        stop = self.step.call_on_fit_task_end(**self.given, reconstruction_attributes=attributes)
        self.step = self._begun()
        return bool(stop)

    def close(self) -> None:
        """End what was begun last: the work after the last step."""
        self.step.call_on_fit_task_end(**self.given)

    def _begun(self) -> Any:
        return self.context.subcontext(task_name="step").call_on_fit_task_begin(**self.given)


@contextmanager
def steps_of(estimator: Any) -> Iterator[Steps | None]:
    """The steps of the fit, or None where there is no callback."""
    root = getattr(estimator, "_callback_fit_ctx", None)
    if root is None:
        yield None
        return
    own = root if estimator._n_subtasks is None else root.subcontext(task_name="fit-all-data", max_subtasks=None)
    if own is not root:
        own.call_on_fit_task_begin(**estimator._told_of)
    steps = Steps(estimator, own)
    yield steps
    steps.close()
    if own is not root:
        own.call_on_fit_task_end(**estimator._told_of)


def each_as_task(estimator: Any, work: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The results of at most `total` pieces of work, each a subtask of the search; a wish to stop is not heard there.

    Parameters
    ----------
    estimator : estimator
        Being fitted.
    work : iterable
        Gives the results.
    total : int
    what : str
        What a piece is called.
    """
    root, results = getattr(estimator, "_callback_fit_ctx", None), iter(work)
    if root is None:
        yield from results
        return
    given = estimator._told_of
    search = root.subcontext(task_name="search", max_subtasks=total).call_on_fit_task_begin(**given)
    for _ in range(total):
        piece = search.subcontext(task_name=what).call_on_fit_task_begin(**given)
        found = list(islice(results, 1))  # none where a time limit has ended the work
        piece.call_on_fit_task_end(**given)
        yield from found
        if not found:
            break
    search.call_on_fit_task_end(**given)
