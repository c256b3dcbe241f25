"""Whom to tell how a fit is doing: the user's callback, and the progress that `verbose` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from levelprox.errors import InvalidInputError
from levelprox.estimators.task import Callback


@contextmanager
def watching(estimator: Any) -> Iterator[Callback | None]:
    """The one callback of a fit, or None where nobody wants to know."""
    check_callback(estimator.callback)
    yield estimator.callback


def check_callback(callback: object) -> None:
    """Raise unless it is a function, or nobody."""
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of a record, got {callback!r}")


@contextmanager
def counting(estimator: Any, total: int, what: str) -> Iterator[Callable[[], None]]:
    """A function to call after each of `total` pieces of work."""
    yield lambda: None
