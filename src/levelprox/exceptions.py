"""Exceptions and warnings of levelprox, and the words of their messages.

Input errors are also `ValueError`s, so that code written for scikit-learn catches them. A run that stops early raises
no error: it returns its best feasible point with a `Status` and a `ConvergenceWarning`. Estimators warn with a subclass
of that category which is scikit-learn's `ConvergenceWarning`, too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from levelprox.result import Result


#: Packages whose frames a warning skips: it points at the caller's line.
_SKIPPED_PACKAGES = ("levelprox", "sklearn", "joblib", "contextlib")


@dataclass(frozen=True)
class Parameter:
    """A parameter that a hint names, rendered by each front end in its own words.

    Attributes
    ----------
    name : str
        As Python has it.
    value : object
        A value to give it; by default the hint only names the parameter.

    Examples
    --------
    >>> str(Parameter("drop", ["city"])), str(Parameter("impute"))
    ("drop=['city']", 'impute')
    """

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return self.name if self.value is ... else f"{self.name}={self.value!r}"


@dataclass(frozen=True)
class Hint:
    """What can be done about an error: text, and the parameters that it names.

    Attributes
    ----------
    parts : tuple of str or Parameter

    Examples
    --------
    >>> hint = Hint(("; leave it out (", Parameter("drop", ["city"]), ")"))
    >>> str(hint)
    "; leave it out (drop=['city'])"
    >>> hint.render(lambda parameter: f"--{parameter.name}")
    '; leave it out (--drop)'
    """

    parts: tuple[str | Parameter, ...]

    def render(self, parameter: Callable[[Parameter], str]) -> str:
        """Return the text, with the parameters in the words of a front end."""
        return "".join(part if isinstance(part, str) else parameter(part) for part in self.parts)

    def __str__(self) -> str:
        return self.render(str)


class LevelproxError(Exception):
    """Base class of the exceptions that levelprox raises.

    Attributes
    ----------
    hint : Hint or None
        A remedy. It is appended to the message, with the Python names of the parameters; other front ends call
        `render`.

    Examples
    --------
    >>> from levelprox import LevelproxError, LinearModel
    >>> try:
    ...     LinearModel([[1.0, 2.0]], [1.0, 2.0])
    ... except LevelproxError as error:
    ...     print(type(error).__name__)
    InvalidInputError
    """

    hint: Hint | None = None

    def render(self, parameter: Callable[[Parameter], str]) -> str:
        """Return the message, with the parameters of the hint in the words of a front end."""
        message = super().__str__()
        return message if self.hint is None else message + self.hint.render(parameter)

    def prefixed(self, prefix: str) -> Self:
        """Return the same error, its message with something in front."""
        other = type(self)(prefix + super().__str__())
        other.__dict__.update(self.__dict__)
        return other

    def __str__(self) -> str:
        return self.render(str)


class InvalidInputError(LevelproxError, ValueError):
    """An argument or the data are invalid; the message names the argument, the position and the value.

    Parameters
    ----------
    message : str
    hint : Hint, optional
        A remedy, appended to the message.

    Examples
    --------
    >>> from levelprox import LinearModel, best_subset
    >>> try:
    ...     best_subset(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), -1)
    ... except ValueError as error:  # InvalidInputError is a ValueError
    ...     print(error)
    k must be an integer of at least 0, got -1
    """

    def __init__(self, message: str = "", hint: Hint | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class InfeasibleError(InvalidInputError):
    """No point satisfies the level, or the given start does not.

    Parameters
    ----------
    message : str
    hint : Hint, optional
        A remedy, appended to the message.

    Examples
    --------
    >>> from levelprox import InfeasibleError, LinearModel, Problem, constraints
    >>> try:
    ...     Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), level=-1)
    ... except InfeasibleError as error:
    ...     print(error)
    no feasible point: g(x) >= 0 for all x, got level=-1
    """


class FileFormatError(InvalidInputError):
    """A file is damaged or has another format; the message names the file and the position.

    Parameters
    ----------
    message : str
    hint : Hint, optional
        A remedy, appended to the message.

    Examples
    --------
    >>> import os, tempfile
    >>> from levelprox import FileFormatError, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.lvp")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"not a model")
    ...     try:
    ...         load(path)
    ...     except FileFormatError:
    ...         print("not a model file")
    not a model file
    """


class CheckpointError(LevelproxError):
    """A checkpoint cannot be written, read or resumed; the message names the file and the difference.

    Examples
    --------
    >>> import os, tempfile
    >>> from levelprox import CheckpointError, LinearModel, Problem, constraints, solve
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "run.checkpoint")
    ...     _ = solve(Problem(model, constraints.L1(), 1.0), checkpoint=path)
    ...     try:
    ...         solve(Problem(model, constraints.L1(), 2.0), checkpoint=path, resume=True)
    ...     except CheckpointError:
    ...         print("the checkpoint belongs to another problem")
    the checkpoint belongs to another problem
    """


class CheckpointLockedError(CheckpointError):
    """Another run keeps its state in this file now."""


class NumericalError(LevelproxError, ArithmeticError):
    """The objective returned a value that is not finite, or raised an exception.

    Parameters
    ----------
    message : str
    result : Result, optional
        State of the run: `result.x` is the last finite, feasible point.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import NumericalError, constraints, minimize
    >>> def psi(x):
    ...     return np.nan, np.zeros(x.size)
    >>> try:
    ...     minimize(psi, constraints.L1(), 1.0, n=2)
    ... except NumericalError as error:
    ...     print(error)
    the objective is not finite at the start: it is nan at x0
    """

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class BackendError(LevelproxError, RuntimeError):
    """Workers, a scheduler or a device do not respond, or a file changes while it is read.

    Parameters
    ----------
    message : str
    result : Result, optional
        State of the run: `result.x` is the last finite, feasible point.

    Examples
    --------
    >>> from levelprox import BackendError
    >>> error = BackendError("no worker responds")
    >>> print(error.result)
    None
    """

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class ConvergenceWarning(UserWarning):
    """A run ended before it reached its tolerance, or its problem has no solution.

    The returned point is feasible; `status` and `message` of the result state why the run ended.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from levelprox import ConvergenceWarning, LinearModel, Problem, constraints, solve
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> problem = Problem(LinearModel(X, X[:, 0] + X[:, 1]), constraints.L1(), 1.0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = solve(problem, subsolver="spectral", max_iter=1)
    >>> issubclass(caught[0].category, ConvergenceWarning), str(result.status)
    (True, 'max_iter')
    """


class CheckpointWarning(UserWarning):
    """The state of a run could not be written, or only an earlier state could be read."""


_convergence_category: ContextVar[type[ConvergenceWarning]] = ContextVar(
    "convergence_category", default=ConvergenceWarning
)


@contextmanager
def convergence_warnings_as(category: type[ConvergenceWarning]) -> Iterator[None]:
    """Let `warn` use this category by default, in the current thread; also a decorator.

    Parameters
    ----------
    category : type
        A subclass of `ConvergenceWarning`.
    """
    token = _convergence_category.set(category)
    try:
        yield
    finally:
        _convergence_category.reset(token)


def warn(message: str, category: type[Warning] | None = None) -> None:
    """Warn at the caller's line, outside levelprox and outside scikit-learn, which calls methods of estimators.

    Parameters
    ----------
    message : str
    category : type, optional
        By default `ConvergenceWarning`, or the category of `convergence_warnings_as`.
    """
    category = _convergence_category.get() if category is None else category
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _SKIPPED_PACKAGES:
        depth, frame = depth + 1, frame.f_back
    try:
        warnings.warn(message, category, stacklevel=depth)
    except ValueError:  # a standard error that is closed, where warnings expect a file or none
        if not getattr(sys.stderr, "closed", False):
            raise


def adopt_renamed(cls: type, names: dict[str, str]) -> None:
    """Give members that a subclass defines under their deprecated names the new ones, with a warning.

    Parameters
    ----------
    cls : type
        A new subclass; see `__init_subclass__` of the base class.
    names : dict
        Deprecated name → new name.
    """
    for old, new in names.items():
        if old in vars(cls) and new not in vars(cls):
            warn(f"{cls.__name__}.{old} is deprecated: its name is {new}", DeprecationWarning)
            setattr(cls, new, vars(cls)[old])


def renamed_attribute(old: str, new: str) -> Any:
    """Return a property that reads and sets attribute `new` under its deprecated name, with a warning."""

    def read(self: Any) -> Any:
        warn(f"{type(self).__name__}.{old} is deprecated: its name is {new}", DeprecationWarning)
        return getattr(self, new)

    def write(self: Any, value: Any) -> None:
        warn(f"{type(self).__name__}.{old} is deprecated: its name is {new}", DeprecationWarning)
        setattr(self, new, value)

    return property(read, write, doc=f"Deprecated name of `{new}`.")


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return "1 feature", "2 features" for a message; `plural` is for nouns that take no s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
