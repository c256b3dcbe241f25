"""Checks of arguments. Each error names the argument, the position and the value."""

from __future__ import annotations

import functools
import math
import numbers
import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, FloatArray, RandomState, Vector
from levelprox.exceptions import InvalidInputError

# Outside this range the squares of weights overflow or underflow.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e100

Function = TypeVar("Function", bound=Callable[..., Any])


def of_a_model(what: str, usage: str) -> Callable[[Function], Function]:
    """Decorate a function of a model or problem: given arrays or an estimator, it says how it is called.

    Parameters
    ----------
    what : str
        Its first argument.
    usage : str
        How it is called with arrays X and y.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            if args and is_data(args[0]):
                kind = type(args[0]).__name__
                raise InvalidInputError(f"{function.__name__} takes {what}, got {kind}: {usage}")
            return function(*args, **options)

        return cast(Function, called)

    return decorate


def option(value: Any) -> Any:
    """Return `value`; the name of an option, such as "MCP" or "squared-hinge", in small letters with underscores."""
    return value.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else value


def did_you_mean(name: object, known: Iterable[str], n: int = 1) -> str:
    """Return "; did you mean 'x'?" for the known names nearest to a misspelt one; nothing if none is near."""
    near = get_close_matches(str(name), list(known), n=n)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def is_data(value: object) -> bool:
    """Return whether `value` is an array or a table, or an estimator, where a model is expected."""
    return isinstance(value, list | tuple) or any(hasattr(value, name) for name in ("shape", "columns", "get_params"))


def must_be(name: str, value: object, kind: type) -> None:
    """Raise an error unless `value` is an object of a class of levelprox."""
    if not isinstance(value, kind):
        got = f"the class {value.__name__}; did you forget ()?" if isinstance(value, type) else type(value).__name__
        if isinstance(value, str):
            got = f"{value!r}; give an object of levelprox.{name}s, such as constraints.MCP.from_threshold(0.5)"
        elif is_data(value):
            got += "; data are given as LinearModel(X, y, loss)"
        raise InvalidInputError(f"{name} must be a levelprox {kind.__name__}, got {got}")


def real(name: str, value: object) -> float:
    """Return `value` as a float; booleans, strings, complex numbers and NaN raise an error."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name} must be a real number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInputError(f"{name} must fit a float64, got {value!r}") from None
    if math.isnan(number):
        raise InvalidInputError(f"{name} must be a number, got NaN")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` as a float above 0 and finite."""
    number = real(name, value)
    if not 0 < number < math.inf:
        raise InvalidInputError(f"{name} must be positive and finite, got {value!r}")
    return number


def nonnegative(name: str, value: object) -> float:
    """Return `value` as a float of at least 0; it may be inf."""
    number = real(name, value)
    if not number >= 0:
        raise InvalidInputError(f"{name} must be nonnegative, got {value!r}")
    return number


def fraction(name: str, value: object) -> float:
    """Return `value` as a float in [0, 1)."""
    number = real(name, value)
    if not 0 <= number < 1:
        raise InvalidInputError(f"{name} must be in [0, 1), got {value!r}")
    return number


def whole(name: str, value: object, least: int = 0, below: int = 2**62) -> int:
    """Return `value` as an integer in [least, below); booleans and floats raise an error."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or not least <= value < below:
        raise InvalidInputError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def as_array(name: str, value: object) -> NDArray[Any]:
    """Return `value` as NumPy sees it; ragged lists and masked entries raise an error."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{name} is a masked array with {int(np.sum(value.mask))} masked entries")
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be read as an array: {error}") from error


def real_array(name: str, value: object) -> FloatArray:
    """Return `value` as a float32 or float64 array; everything narrower or integer becomes float64."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.dtype.isnative:
        return value  # most are, and come by the thousand
    array = as_array(name, value)
    if array.dtype.kind == "O":
        array = _from_objects(name, array)
    if array.dtype.kind not in "buif":
        such = f", such as {array.flat[0].item()!r}"[:80] if array.size and array.dtype.kind in "SU" else ""
        raise InvalidInputError(f"{name} must hold real numbers, got dtype {array.dtype}{such}")
    with np.errstate(over="ignore"):  # what overflows becomes inf, which is then named with its place
        if array.dtype.newbyteorder("=") != np.float32:
            array = array.astype(np.float64, copy=False)
        return array.astype(array.dtype.newbyteorder("="), copy=False)


def _from_objects(name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise InvalidInputError(f"{name} holds a number that float64 cannot represent") from None
    except (TypeError, ValueError):
        culprit = next(item for item in array.flat if not is_number(item))
        raise InvalidInputError(f"{name} must hold real numbers, got objects such as {repr(culprit)[:60]}") from None


def is_number(item: object) -> bool:
    """Return whether `item` can be read as a float."""
    try:
        float(item)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def finite(name: str, array: FloatArray) -> FloatArray:
    """Return `array`; raise an error that names its first entry that is NaN or infinite, if there is one."""
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        place = ", ".join(str(int(i)) for i in np.unravel_index(bad[0], array.shape))
        kind = "NaN" if np.isnan(array.flat[bad[0]]) else "inf"
        raise InvalidInputError(f"{name} contains {kind} at index {place} ({bad.size} in total)")
    return array


def feature_weights(weights: ArrayLike, d: int) -> FloatArray:
    """Return ω as an array of shape (d,): finite, nonnegative, and within the range of valid weights."""
    omega = real_array("weights", weights)
    if omega.shape != (d,):
        raise InvalidInputError(f"weights must have shape ({d},), got {omega.shape}")
    finite("weights", omega)
    wide = omega.astype(np.float64)
    outside = np.flatnonzero((wide != 0) & ((wide < SMALLEST_WEIGHT) | (wide > LARGEST_WEIGHT)))
    if outside.size:
        i = int(outside[0])
        raise InvalidInputError(
            f"weights must be 0 (unpenalized) or in [{SMALLEST_WEIGHT:g}, {LARGEST_WEIGHT:g}], "
            f"got {omega[i]} at index {i}"
        )
    return omega


def weights_without(unpenalized: Features, weights: ArrayLike | None, n_features: int) -> Vector | None:
    """Return ω, checked, with 0 for the features that never count; given for all features, or for those that count."""
    if not unpenalized.size:
        return None if weights is None else feature_weights(weights, n_features).astype(np.float64)
    given = np.ones(n_features) if weights is None else real_array("weights", weights)
    if given.shape == (n_features - unpenalized.size,):
        given = np.insert(given, unpenalized - np.arange(unpenalized.size), 0.0)
    elif given.shape == (n_features,):
        given = np.array(given)
        given[unpenalized] = 0.0
    return feature_weights(given, n_features).astype(np.float64)


def nonnegative_mask(nonnegative: ArrayLike | None, d: int) -> tuple[NDArray[np.uint8] | None, bool]:
    """Return (mask, all): a mask only if some coordinates are nonnegative and others free."""
    if nonnegative is None:
        return None, False
    asked = np.asarray(nonnegative)
    if asked.dtype != np.bool_ or asked.shape not in ((), (d,)):
        raise InvalidInputError(
            f"nonnegative must be a bool or a boolean mask of shape ({d},), got {asked.dtype} of shape {asked.shape}"
        )
    if asked.all() or not asked.any():
        return None, bool(asked.any())
    return np.ascontiguousarray(asked).view(np.uint8), False


def signs_without(unpenalized: Features, nonnegative: ArrayLike | None, n_features: int) -> ArrayLike | None:
    """Return sign constraints of the penalized features; for others only by a mask over all features."""
    asked = np.asarray(nonnegative)
    if not unpenalized.size or (asked.ndim == 0 and not asked):
        return nonnegative
    counted = n_features - unpenalized.size
    if asked.dtype == np.bool_ and asked.shape in ((), (counted,)):
        return np.insert(np.broadcast_to(asked, (counted,)), unpenalized - np.arange(unpenalized.size), False)
    return nonnegative


def real_values(value: object) -> FloatArray:
    """Return the numbers of X as float32 or float64.

    Both are kept; every other real type becomes float64, with a warning where that rounds
    (long double, and 64-bit integers beyond 2^53).
    """
    array = as_array("X", value)
    message = rounding(array)
    if message:
        warnings.warn(message, UserWarning, stacklevel=4)
    return real_array("X", array)


def rounding(array: NDArray[Any]) -> str:
    """Return what float64 does to entries of X that it cannot hold; empty where it holds them all."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return f"X has dtype {array.dtype}; it is rounded to float64"
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        largest = max(int(array.max()), -int(array.min()))
        if largest > 2**53:
            return f"X holds integers beyond 2^53, such as {largest}; float64 rounds them"
    return ""


def check_labels(y: NDArray[Any]) -> None:
    """Raise unless the labels can be distinguished and sorted."""
    if y.dtype.kind == "f":
        finite("y", y)
        between = np.flatnonzero(y != np.floor(y))
        if between.size:
            i = int(between[0])
            raise InvalidInputError(
                f"Unknown label type: continuous, y is {y[i]:g} at index {i}; numbers are for regression: "
                "SparseRegressor"
            )
    if y.dtype.kind != "O":
        return
    missing = np.array([is_missing(label) for label in y])
    if np.any(missing):
        i = int(np.argmax(missing))
        raise InvalidInputError(f"Input y contains NaN: {y[i]!r} at index {i} ({np.count_nonzero(missing)} in total)")
    kinds = sorted({type(label).__name__ for label in y})
    if len(kinds) > 1 and "str" in kinds:
        raise InvalidInputError(f"y must hold classes of one type, got {' and '.join(kinds)}")


def is_missing(label: Any) -> bool:
    """Return whether this is no label: None, NaN or NA."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return True


def generator(random_state: RandomState) -> np.random.Generator:
    """Return NumPy's generator for a random state of scikit-learn."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)
    is_whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if random_state is None or isinstance(random_state, np.random.Generator) or (is_whole and random_state >= 0):
        return np.random.default_rng(random_state)
    raise InvalidInputError(
        f"random_state must be a nonnegative int, RandomState, Generator or None, got {random_state!r}"
    )
