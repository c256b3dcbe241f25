"""The squared loss of many samples of few features, with about as many rows as there are features.

With [1, A, b] = QR, rows weighted by √(s_i / Σ s),

    Σ_i s_i (⟨a_i, x⟩ + x_0 − b_i)² / Σ s  =  ‖R (x_0, x, −1)‖²,

so the triangle R replaces the samples. Its first row is the intercept's: without it columns are centred.
R'R is the Gram matrix of the data, and R has twice its digits. It is put together from the triangles of blocks of rows,
as those of the folds of a cross-validation: the samples are read once.

**Rounding.** R is that of columns which differ from those of the data by some ulps of their lengths. What that changes
in ψ, relative to it, is at most a few times ε κ ‖b‖/‖r‖, with the condition number κ of the columns in units of their
lengths, and r what all features together leave of b. Where κ‖b‖/‖r‖ is large, or where a mean has cost digits of a
column, there is no reduction, and the data are used directly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError, seconds_left
from levelprox._typing import Features, Matrix, Vector
from levelprox.designs import Design, InterceptDesign, ScaledDesign
from levelprox.designs.dense import DenseDesign
from levelprox.losses import Squared
from levelprox.objectives.linear_model import LinearModel

_MOST = 400  # features: with more, searches by the Gram matrix take long
_SAMPLES = 4  # for each feature: with fewer, a reduction does not save much
_ROWS = 1024  # in a block
_TRUSTED = 1e4  # of κ‖b‖/‖r‖
_FAR = 1e3  # times what is left of a column without its mean: the column itself
_FAR_CENTER = 1e4  # deviations


class ReducedModel(LinearModel):
    """ψ of a linear model with the squared loss over the rows of R, without its intercept.

    Parameters
    ----------
    factor : ndarray of shape (d + 1, d + 1), or with an intercept (d + 2, d + 2)
        R, of columns in the order (intercept), features, target.
    data : LinearModel
        Whose ψ this is, in the units of its columns.
    standard : LinearModel
        The model whose columns were reduced: `data` itself, or what `data.standardised` returned.

    Attributes
    ----------
    data, standard : LinearModel
    """

    def __init__(self, factor: Matrix, data: LinearModel, standard: LinearModel) -> None:
        inner, self._intercept = centred(factor, bool(standard.unpenalized.size))
        root = np.sqrt(inner.shape[0])  # ψ is a mean over rows
        super().__init__(np.asfortranarray(root * inner[:, :-1]), root * inner[:, -1])
        self.data, self.standard = data, standard
        self._search: tuple[bytes, _kernels.GramSearch] | None = None

    def best_features(self, k: int, kept: Features) -> Features:
        """Return the best set found of at most k features besides those that are kept, by the Gram matrix.

        A function of the data and k alone, independent of other k.
        """
        if self._search is None or self._search[0] != kept.tobytes():
            design = self.design
            assert isinstance(design, DenseDesign)
            self._search = kept.tobytes(), gram_search(np.asarray(design.array, np.float64), self.target, kept)
        return np.array(self._search[1].best(k), np.intp)

    def unstandardised(self, x: Vector) -> Vector:
        """Return the coefficients for the data, with their intercept."""
        x = self.over_columns(x)
        return x if self.standard is self.data else self.standard.unstandardised(x)

    def over_columns(self, x: Vector) -> Vector:
        """Return the coefficients for the columns that were reduced, with their intercept."""
        if self._intercept is None:
            return x
        return np.append(x, self._intercept[-1] - float(np.sum(self._intercept[:-1] * x)))


def reduced(data: LinearModel, standard: LinearModel) -> ReducedModel | None:
    """Return the model over the rows of R; None where there is none, or rounding would show.

    Parameters
    ----------
    data : LinearModel
    standard : LinearModel
        The same, or what `data.standardised` returned.
    """
    if not is_reducible(standard):
        return None
    factor = triangle_of(standard)
    return ReducedModel(factor, data, standard) if is_trusted(factor, bool(standard.unpenalized.size)) else None


def triangle_of(objective: LinearModel) -> Matrix:
    """Return R of all samples, which is kept with the objective."""
    if "_triangle" not in objective.__dict__:
        objective._triangle = triangle(blocks(objective))
    return objective._triangle


def is_reducible(objective: LinearModel, n: int | None = None) -> bool:
    """Return whether ψ is a squared loss of many dense samples of few features; n is how many, where it is given."""
    d = objective.design.shape[1]
    n = objective.design.shape[0] if n is None else n
    few = d <= _MOST and n >= _SAMPLES * (d + 2)
    plain = type(objective) is LinearModel and not getattr(objective, "ridge", None)
    return few and plain and isinstance(objective.loss, Squared) and is_dense(objective.design)


def is_dense(design: Design) -> bool:
    """Return whether entries are dense, with the intercept last and no mean that costs them digits."""
    base = design
    if isinstance(base, InterceptDesign):
        if base.ones.tolist() != [base.shape[1] - 1]:
            return False
        base = base.base
    if isinstance(base, ScaledDesign):
        if base.center_ is not None:
            scale = 1.0 if base.scale_ is None else base.scale_
            if np.any(np.abs(base.center_) > _FAR_CENTER * scale):
                return False
        base = base.base
    return isinstance(base.at_hand, DenseDesign)


def blocks(objective: LinearModel, chosen: Features | None = None) -> Iterator[Matrix]:
    """Return [1, A, b − o] of some samples, weighted, in blocks of rows; without an intercept there are no ones."""
    design, target = objective.design, objective.target
    target = target if objective.offset is None else target - objective.offset
    root, n = np.sqrt(objective.share), target.size if chosen is None else chosen.size
    step = max(_ROWS, 4 * design.shape[1])
    for begin in range(0, n, step):
        if seconds_left() <= 0:
            raise TimeLimitError
        rows = slice(begin, min(n, begin + step)) if chosen is None else chosen[begin : begin + step]
        entries = _entries(design, rows)
        entries[:, -1] = target[rows]
        entries *= root[rows, None]
        yield entries


def _entries(design: Design, rows: slice | Features) -> Matrix:
    """Return some rows of a design, copied, the column of ones first, and with one more column at the end."""
    first = design.ones.size
    base = design.base if isinstance(design, InterceptDesign) else design
    center = scale = None
    if isinstance(base, ScaledDesign):
        center, scale, base = base.center_, base.scale_, base.base
    base = base.at_hand
    assert isinstance(base, DenseDesign)
    part = base.array[rows]
    entries = np.ones((part.shape[0], first + base.shape[1] + 1))
    inner = entries[:, first:-1]
    inner[:] = part
    if center is not None:
        inner -= center
    if scale is not None:
        inner /= scale
    return entries


def dense_entries(design: Design) -> Matrix:
    """Return all entries of a design that `is_dense`, with the column of ones last."""
    entries = _entries(design, slice(None))
    return np.ascontiguousarray(np.roll(entries[:, :-1], -int(design.ones.size), axis=1))


def triangle(parts: Iterator[Matrix]) -> Matrix:
    """Return R of blocks of rows, as many rows as columns at most."""
    found: list[Matrix] = []
    held = 0
    for part in parts:
        found.append(part if part.shape[0] <= part.shape[1] else _factor(part))
        held += found[-1].shape[0]
        if held >= max(_ROWS, 4 * part.shape[1]):
            found, held = [_factor(np.vstack(found))], part.shape[1]
    whole = np.vstack(found)
    return _factor(whole) if len(found) > 1 or whole.shape[0] > whole.shape[1] else whole


def _factor(rows: Matrix) -> Matrix:
    return np.asarray(np.linalg.qr(rows, mode="r"), np.float64)


def centred(factor: Matrix, intercept: bool) -> tuple[Matrix, Vector | None]:
    """Return R without the intercept, and what the intercept is: the last entry less the others times coefficients."""
    if not intercept:
        return factor, None
    return factor[1:, 1:], factor[0, 1:] / factor[0, 0]


def is_trusted(factor: Matrix, intercept: bool) -> bool:
    """Return whether rounding of R does not show in any ψ."""
    inner, _ = centred(factor, intercept)
    size = np.sqrt(np.sum(inner**2, axis=0))
    whole = np.sqrt(np.sum(factor[:, int(intercept) :] ** 2, axis=0))
    if not (np.all(np.isfinite(whole)) and np.all(whole <= _FAR * size)):  # columns of zeros are fine
        return False
    used = np.flatnonzero(size[:-1])
    if inner.shape[0] < inner.shape[1] or not used.size or inner[-1, -1] == 0:
        return False
    unit = inner[:, used] / size[used]
    values = np.linalg.eigvalsh(unit.T @ unit)
    if not values[0] > 0:
        return False
    return bool(np.sqrt(values[-1] / values[0]) * size[-1] <= _TRUSTED * abs(inner[-1, -1]))


def gram_search(columns: Matrix, target: Vector, kept: Features) -> _kernels.GramSearch:
    """Return what finds the best features of a squared loss with few rows."""
    size = np.sqrt(np.sum(columns**2, axis=0))
    unit = np.ascontiguousarray(columns / np.where(size > 0, size, 1.0))
    mask = np.zeros(columns.shape[1], np.uint8)
    mask[kept] = 1
    return _kernels.GramSearch(
        np.ascontiguousarray(unit.T @ unit), np.ascontiguousarray(unit.T @ target), float(target @ target), mask
    )
