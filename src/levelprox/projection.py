"""Projection onto the surrogate set of LCPP (Theorem "prox oracle").

    min  1/2 ‖x − v‖²   s.t.   Σ ω_i (|x_i| + u_i x_i) ≤ τ

For u = −∇h(x^{k−1})/λ and τ = (η_k + h(x^{k−1}) − ⟨∇h(x^{k−1}), x^{k−1}⟩)/λ this is the set
{g_k ≤ η_k} of the paper's subproblem; with u = 0 it is the weighted ℓ1 ball. The paper sorts
breakpoints in O(d log d); for |u| ≤ 1, as always in LCPP, a few passes over the data suffice. The rounding error of x
is a few units in the last place of max |v| for |u| ≤ 1, and of each x_i for other u, for any spread of the weights.

Where a feature has several coefficients the set is the group ball {Σ_j ω_j ‖x_j‖₂ ≤ τ}: the norms are projected
onto the weighted ℓ1 ball, and every row is scaled to its new norm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._typing import FloatArray
from levelprox._validation import feature_weights, finite, nonnegative_mask, real_array, whole
from levelprox.exceptions import InfeasibleError, InvalidInputError

# The kernel takes rows in blocks of about this many numbers, so that Ctrl-C is handled in time.
_PIECE = 2**23


def project(
    v: ArrayLike,
    u: ArrayLike,
    tau: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    nonnegative: ArrayLike | None = None,
    start: ArrayLike | None = None,
    out: FloatArray | None = None,
    width: int = 1,
) -> tuple[FloatArray, float | NDArray[np.float64]]:
    """Project onto {x : Σ ω_i (|x_i| + u_i x_i) ≤ τ}, with an exactly feasible result.

    The result satisfies the constraint in exact arithmetic, not only up to rounding, and a
    point that already satisfies it is returned unchanged. With `width` above 1 the set is
    {x : Σ_j ω_j ‖x_j‖₂ ≤ τ} for the features j, and norms are rounded up before they are compared with τ.

    Parameters
    ----------
    v : array-like of shape (d,) or (m, d)
        The point, or one point per row. float32 and float64 are kept; other types become float64.
    u : array-like of shape (d,) or (m, d), or scalar
        The linear part, in the paper's sign. Any values up to 1e50; |u| ≤ 1 is the fast case. A scalar is not
        rounded to the type of v.
    tau : float or array-like of shape (m,)
        The level. If every |u_i| ≤ 1 it must be nonnegative; otherwise the set is empty.
    weights : array-like of shape (d / width,), optional
        ω ≥ 0. A coordinate, or feature, of weight 0 is unpenalized and not changed.
    nonnegative : bool or array-like of bool of shape (d,), optional
        The coordinates with the additional constraint x_i ≥ 0.
    start : float or array-like of shape (m,), optional
        A guess of the multiplier, such as the last one. It saves passes and does not change the result.
    out : ndarray of v's shape, optional
        The array for x. May be `v` itself.
    width : int, default=1
        The number of consecutive coordinates per feature: feature j has j·width … (j+1)·width − 1. If it is above
        1, u must be 0, and `nonnegative` is not supported.

    Returns
    -------
    x : ndarray of v's shape
        The projection.
    multiplier : float or ndarray of shape (m,)
        y ≥ 0 with v − x ∈ y ∂(Σ ω_i (|x_i| + u_i x_i)), or y ∂(Σ ω_j ‖x_j‖₂); the smallest where it is not unique.

    Raises
    ------
    InvalidInputError
        For NaN, infinities (τ = inf is allowed) and shapes that do not fit.
    InfeasibleError
        If the set is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import project
    >>> x, multiplier = project([3.0, -1.0, 0.5], u=[0.0, 0.0, 0.0], tau=2.0)
    >>> x.round(6).tolist(), round(multiplier, 6)
    ([2.0, 0.0, 0.0], 1.0)
    >>> x, multiplier = project([3.0, 4.0, 0.6, 0.8], u=0.0, tau=3.0, width=2)  # norms 5 and 1
    >>> x.round(6).tolist(), round(multiplier, 6)
    ([1.8, 2.4, 0.0, 0.0], 2.0)
    """
    point = real_array("v", v)
    if point.ndim not in (1, 2):
        raise InvalidInputError(f"v must have shape (d,) or (m, d), got {point.shape}")
    d = point.shape[-1]
    if d == 0:
        raise InvalidInputError(f"v must have at least one coordinate, got shape {point.shape}")
    m = 1 if point.ndim == 1 else point.shape[0]
    linear = _linear_part(u, point)
    features = _number_of_groups(d, width, linear, nonnegative)
    omega = None if weights is None else feature_weights(weights, features)
    dtype = np.result_type(point, *(() if omega is None else (omega,)), *(() if np.ndim(u) == 0 else (linear,)))
    # A scalar u that is not a float32 is used in float64; x stays float32.
    working = dtype if linear is None else np.result_type(dtype, linear)
    target = _target(out, point.shape, dtype)
    rows = np.ascontiguousarray(point, working).reshape(m, d)
    linear_rows = None if linear is None else np.ascontiguousarray(linear, working).reshape(-1, d)
    omega = None if omega is None else omega.astype(working)
    if np.shares_memory(target, rows):  # out may be v
        rows = rows.copy()
    if linear_rows is not None and np.shares_memory(target, linear_rows):  # or u
        linear_rows = linear_rows.copy()
    mask, all_nonnegative = nonnegative_mask(nonnegative, d)
    levels = _one_a_row("tau", tau, point.ndim, m)
    guesses = _one_a_row("start", 0.0 if start is None else start, point.ndim, m)
    finite("start", guesses)
    multiplier = np.empty(m)

    x = target.reshape(m, d) if working == dtype else np.empty((m, d), working)
    piece = max(1, _PIECE // max(d, 1))
    for begin in range(0, m, piece):
        part = slice(begin, begin + piece)
        of_u = None if linear_rows is None else linear_rows if len(linear_rows) == 1 else linear_rows[part]
        failed, status = _kernels.project_rows(
            rows[part],
            of_u,
            omega,
            mask,
            all_nonnegative,
            levels[part],
            guesses[part],
            x[part],
            multiplier[part],
            width,
        )
        if failed >= 0:
            _explain(status, point, linear, float(levels[begin + failed]))
    if working != dtype:
        assert linear is not None
        target.reshape(m, d)[...] = _rounded_to_cheaper(x, linear, dtype, levels)
    return target, float(multiplier[0]) if point.ndim == 1 else multiplier


def group_norms(x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return ‖x_j‖₂ of every feature j, x_j its `width` coordinates, each rounded up to the next float64."""
    norms = np.empty(x.size // width)
    _kernels.group_norms(np.ascontiguousarray(x), norms)
    return norms


def _number_of_groups(d: int, width: int, linear: FloatArray | None, nonnegative: ArrayLike | None) -> int:
    """Return the number of features of the d coordinates."""
    if whole("width", width, 1) == 1:
        return d
    if d % width:
        raise InvalidInputError(f"v has {d} coordinates, which is not a multiple of width={width}")
    if linear is not None and np.any(linear != 0):
        raise InvalidInputError("u must be 0 where a feature has several coordinates: their norm has no sign")
    if nonnegative is not None and np.any(nonnegative):
        raise InvalidInputError("nonnegative is not supported for features with several coordinates")
    return d // width


def _linear_part(u: ArrayLike, point: FloatArray) -> FloatArray | None:
    linear, shape = real_array("u", u), point.shape
    if linear.ndim == 0:  # a scalar takes the type of v if it is exact there
        if linear == 0:
            return None
        with np.errstate(over="ignore", under="ignore"):
            narrow = np.full(shape[-1:], linear, dtype=point.dtype)
        return narrow if narrow[0] == linear else np.full(shape[-1:], linear, np.float64)
    if linear.shape not in (shape, shape[-1:]):
        raise InvalidInputError(f"u must have shape {shape[-1:]} or v's shape {shape}, got {linear.shape}")
    return linear


def _rounded_to_cheaper(x: FloatArray, u: FloatArray, dtype: np.dtype[Any], levels: NDArray[np.float64]) -> FloatArray:
    """Return x in a narrower type, each coordinate rounded in the direction that lowers Σ ω(|x| + ux)."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = x.astype(dtype)
    priced = 1 + np.sign(x) * u >= 0  # the cost grows with |x|: round towards zero
    size, wide = np.abs(x), np.abs(narrow.astype(np.float64))
    limit = np.where(priced, 0.0, np.copysign(np.inf, x)).astype(dtype)
    narrow = np.where(np.where(priced, wide > size, wide < size), np.nextafter(narrow, limit), narrow)
    beyond = ~np.isfinite(narrow)
    if np.any(beyond):
        row = int(np.argmax(np.any(beyond, axis=1)))
        raise InfeasibleError(f"no feasible point within the range of {dtype}; got tau={levels[row]:g}")
    return narrow


def _one_a_row(name: str, value: ArrayLike, ndim: int, m: int) -> NDArray[np.float64]:
    numbers = real_array(name, value).astype(np.float64)
    if numbers.ndim > 1 or (numbers.ndim == 1 and (ndim == 1 or numbers.shape != (m,))):
        fits = "a scalar" if ndim == 1 else f"a scalar or of shape ({m},)"
        raise InvalidInputError(f"{name} must be {fits}, got shape {numbers.shape}")
    if np.isnan(numbers).any():
        raise InvalidInputError(f"{name} must be a number, got NaN")
    if np.isneginf(numbers).any():
        raise InvalidInputError(f"{name} must be above -inf")
    return np.ascontiguousarray(np.broadcast_to(numbers, (m,)))


def _target(out: FloatArray | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FloatArray:
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        got = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InvalidInputError(f"out must be an array of {dtype} of shape {shape}, got {got}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise InvalidInputError("out must be C-contiguous and writeable")
    return out


def _explain(status: _kernels.ProjectionStatus, point: FloatArray, linear: FloatArray | None, tau: float) -> None:
    """Raise the error that describes why the kernel failed."""
    if status is _kernels.ProjectionStatus.NOT_FINITE:
        finite("v", point)
        if linear is not None:
            finite("u", linear)
            raise InvalidInputError(f"u must be in [-1e50, 1e50], got {linear.flat[np.argmax(np.abs(linear))]:g}")
    reason = "Σ ω(|x| + ux) ≥ 0 for every x when |u| ≤ 1 wherever ω > 0"
    if linear is not None and np.any(np.abs(linear) > 1):
        reason += ", and where |u| > 1 the point may be beyond the floating-point range"
    raise InfeasibleError(f"no feasible point: {reason}; got tau={tau:g}")


_SPLIT = 134217729.0  # 2^27 + 1
_LARGE, _SMALL = 2.0**970, 2.0**-900  # beyond these the parts of a product leave the floating-point range


def product_tail(a: NDArray[np.float64], b: NDArray[np.float64], product: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a·b − product without rounding, for product = a·b rounded (Dekker); NaN if it cannot be computed."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        a_head, b_head = _head(a), _head(b)
        a_tail, b_tail = a - a_head, b - b_head
        tail = ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail
        in_range = (np.maximum(np.abs(a), np.abs(b)) < _LARGE) & (np.abs(product) > _SMALL)
    return np.where(in_range, tail, np.where((a == 0) | (b == 0), 0.0, np.nan))


def products_above(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a·b ≥ 0, each rounded up."""
    with np.errstate(over="ignore", under="ignore"):
        product = a * b
    tail = product_tail(a, b, product)
    return np.where(tail <= 0, product, np.nextafter(product, np.inf))


def sum_above(terms: NDArray[np.float64]) -> float:
    """Return the sum of nonnegative numbers, rounded up."""
    values: list[float] = terms.tolist()
    try:
        total = math.fsum(values)
        above = math.isfinite(total) and math.fsum([*values, -total]) > 0
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf) if above else total


def _head(a: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = _SPLIT * a
    return np.asarray(scaled - (scaled - a), np.float64)
