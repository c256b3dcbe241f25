"""X centred and scaled, column by column, without a copy: a sparse X stays sparse.

    A = (X − 1c') diag(1/s),      Ax = Xv − ⟨c, v⟩ 1  with  v = x/s,      A'r = (X'r − c Σ r) / s

Products are those of X and O(n + d) besides; they round as sums of X_ij/s_j do, so that a mean of 1e6 standard
deviations costs 6 of 16 digits. A single column, Ae_j with |c_j| > 100 s_j, comes from centred entries and has all
digits. Sums of squares, where it would cost 12, centre each entry before it is squared
(`kernels/algorithms/affine.hpp`); A'DA does so for dense data, block by block, and for sparse data is

    A'DA = S⁻¹ (X'DX − (X'D1)c' − c(X'D1 − c ΣD)') S⁻¹.

Entry (j, k) of that loses the digits of |c_j c_k| / (s_j s_k). A column with a share p of nonzeros has |mean| / sd
≤ √(p / (1 − p)), 10 at p = 0.99: only columns that are stored (almost) in full can lose more than two digits. Where
|c_j| > 100 s_j, row j comes from the entries of the column, each of them centred.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Vector
from levelprox._validation import finite, real_array
from levelprox.designs._base import Design, vector
from levelprox.designs.dense import DenseDesign, as_design
from levelprox.designs.moments import means_and_scales
from levelprox.designs.sparse import SparseDesign
from levelprox.exceptions import InvalidInputError

_FAR_MEAN = 100.0  # deviations
_SAFE_EXPONENT = 200  # of the scale of a column: squares of its entries are in range before they are scaled
_FEW_STORED_SHARE = 1 / 8  # of the stored entries: columns with fewer are copied to centre their entries
_BLOCK = 2**22  # entries of X that are centred at a time


class ScaledDesign(Design):
    """(X − 1c') diag(1/s).

    Parameters
    ----------
    base : Design
        X, neither scaled nor with an intercept itself.
    center : array-like of shape (d,), optional
        c. None is no centring.
    scale : array-like of shape (d,), optional
        s > 0. None is no scaling.

    Attributes
    ----------
    center_, scale_ : ndarray of shape (d,) or None

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import ScaledDesign
    >>> A = ScaledDesign.standardized(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> A.center_.tolist(), A.scale_.tolist(), A.matvec([1.0, 1.0]).tolist()
    ([2.0, 5.0], [1.0, 1.0], [-1.0, 1.0])
    """

    has_rows = False
    base: Design

    def __init__(self, base: Design, center: ArrayLike | None = None, scale: ArrayLike | None = None) -> None:
        if isinstance(base, ScaledDesign) or base.ones.size:
            raise InvalidInputError("scale X itself, then add the intercept: InterceptDesign(ScaledDesign(X, …))")
        d = base.shape[1]
        self.base = base
        self.center_ = None if center is None else _own("center", center, d)
        self.scale_ = None if scale is None else _own("scale", scale, d)
        if self.scale_ is not None and np.any(self.scale_ <= 0):
            j = int(np.argmax(self.scale_ <= 0))
            raise InvalidInputError(f"scale must be positive, got {self.scale_[j]:g} at index {j}")
        self.shape = base.shape
        self.dtype = base.dtype
        self.nbytes = base.nbytes + sum(part.nbytes for part in (self.center_, self.scale_) if part is not None)

    @classmethod
    def standardized(
        cls,
        X: object,
        with_mean: bool = True,
        with_std: bool = True,
        sample_weight: ArrayLike | None = None,
    ) -> ScaledDesign:
        """X with columns of mean 0 and standard deviation 1, both weighted: Σ s_i a_ij = 0, Σ s_i a_ij² = Σ s_i.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or Design
            Read in two passes, never changed or copied.
        with_mean, with_std : bool, default=True
            Whether to centre, whether to scale.
        sample_weight : array-like of shape (n,), optional
            s ≥ 0: a weight of 2 is a repeated sample, a weight of 0 a removed one.

        Returns
        -------
        ScaledDesign
            Columns that are constant, up to rounding, have scale 1.
        """
        base = as_design(X)
        if not base.has_rows:
            raise InvalidInputError("X is centred and scaled already, or has an intercept")
        weight = None if sample_weight is None else _sample_weight(sample_weight, base.shape[0])
        mean, scale = means_and_scales(base, weight)
        return cls(base, mean if with_mean else None, scale if with_std else None)

    def unscaled(self, x: ArrayLike) -> tuple[Vector, float | Vector]:
        """Coefficients for X itself, and what to add to the intercept: x/s and −⟨c, x/s⟩.

        Parameters
        ----------
        x : array-like of shape (d,) or (d, K)
            Coefficients for A, without the intercept; one column per class, if there are several.
        """
        coefficients = np.array(real_array("x", x), dtype=np.float64)
        if coefficients.shape[:1] != self.shape[1:] or coefficients.ndim > 2:
            raise InvalidInputError(f"x must have shape ({self.shape[1]},), got {coefficients.shape}")
        if self.scale_ is not None:
            coefficients /= self.scale_ if coefficients.ndim == 1 else self.scale_[:, None]
        center = np.zeros(self.shape[1]) if self.center_ is None else self.center_
        shift = -np.sum(center * coefficients.T, axis=-1)
        return coefficients, float(shift) if coefficients.ndim == 1 else shift

    @property
    def kernel(self) -> DesignKernel:  # type: ignore[override]  # there is none to read
        """Not available: kernels read single rows, which this design does not have."""
        raise InvalidInputError("a scaled X has no rows that the kernels could read one by one")

    @property
    def stored(self) -> int:
        """How many entries are stored."""
        return self.base.stored

    def stored_in(self, chosen: Index) -> int:
        """Return how many entries of these columns are stored, repeats included; all of centred ones count."""
        if self.center_ is None:
            return self.base.stored_in(chosen)
        centred = self.center_[chosen] != 0
        return self.base.stored_in(chosen[~centred]) + self.shape[0] * int(np.count_nonzero(centred))

    def matvec(self, x: ArrayLike) -> Vector:
        """Return xx, of shape (n,); without a pass over X where x is 0."""
        given = vector("x", x, self.shape[1])
        used = np.flatnonzero(given)
        if used.size == 1 and self._is_far(used)[0]:
            # Each entry is centred before it is scaled: a product of X would lose the mean's digits.
            j = int(used[0])
            column = self._centred_column(j)
            return np.asarray((column if self.scale_ is None else column / self.scale_[j]) * given[j], np.float64)
        v, shift = self.unscaled(given)
        product = self.base.matvec(v)
        return product if self.center_ is None else product + shift

    def rmatvec(self, r: ArrayLike) -> Vector:
        """Return X'r, of shape (d,)."""
        residual = vector("r", r, self.shape[0])
        product = self.base.rmatvec(residual)
        return self._scaled(product if self.center_ is None else product - self.center_ * residual.sum())

    def column_squares(self, weight: ArrayLike | None = None) -> Vector:
        """Return Σ_i s_i X_ij² for every feature j, with s = `weight` or 1; of shape (d,)."""
        return self._sums(self._weight("weight", weight), 2)

    def weighted_sums(self, weight: Vector) -> Vector:
        """Return X's, as `rmatvec`, but with the digits of each column's spread even where its mean is far greater."""
        return self._sums(weight, 1)

    def row_squares(self) -> Vector:
        """Return Σ_j X_ij² for every sample i; of shape (n,)."""
        out = np.empty(self.shape[0])
        for rows, part in self._parts():
            _kernels.affine_row_squares(part.kernel, self.center_, self.scale_, out[rows])
        return out

    def row_magnitudes(self, x: ArrayLike) -> Vector:
        """Σ_j |X_ij x_j / s_j| + Σ_j |c_j x_j / s_j|: products are summed from these."""
        terms = self._scaled(vector("x", x, self.shape[1]))
        of_center = 0.0 if self.center_ is None else float(np.sum(np.abs(self.center_ * terms)))
        return self.base.row_magnitudes(terms) + of_center

    def column_magnitudes(self) -> Vector:
        """(max |X_ij| + |c_j|) / s_j."""
        largest = self.base.column_magnitudes()
        return self._scaled(largest if self.center_ is None else largest + np.abs(self.center_))

    def column_noise(self) -> Vector | None:
        """ε |c_j| / s_j of every column; None without centring."""
        return None if self.center_ is None else self._scaled(np.finfo(np.float64).eps * np.abs(self.center_))

    def row_major(self) -> Design:
        """Return X stored row after row: itself where it is, else a copy."""
        return ScaledDesign(self.base.row_major(), self.center_, self.scale_)

    def linear_model(
        self,
        loss: tuple[str, float, float],
        target: Vector,
        weight: Vector | None,
        offset: Vector | None,
        ones: Index | None = None,
    ) -> _kernels.Objective:
        """Return the kernel of Σ s_i ℓ(⟨a_i, x⟩ + o_i, b_i) / Σ s_i, in passes over X as it is stored."""
        model = _kernels.LinearModel(self.base.kernel, *loss, target, weight, offset)
        return _kernels.AffineModel(model, self.center_, self.scale_, ones)

    def _scaled(self, values: Vector) -> Vector:
        """`values`, whose last axis is that of the columns, divided by s."""
        return values if self.scale_ is None else values / self.scale_

    def _around(self, part: Design, chosen: Index) -> ScaledDesign:
        found = copy.copy(self)  # c and s were checked
        found.__dict__.pop("_entrywise", None)
        found.base, found.shape, found.dtype, found.nbytes = part, part.shape, part.dtype, part.nbytes
        for name in ("center_", "scale_"):
            whole = getattr(self, name)
            if whole is not None:
                setattr(found, name, whole[chosen])
                found.nbytes += found.shape[1] * whole.itemsize
        return found

    def _gram(self, weight: Vector | None, known: int) -> Vector:
        if self.center_ is not None and self._is_dense:
            return self._dense_gram(self.center_, self._weight("D", weight), known)
        gram = self.base._gram(weight, known)
        gram[:known, :known] = 0.0  # uninitialised memory must not overflow below
        if self.center_ is not None:
            weight = self._weight("D", weight)
            gram = self._centred(gram, self.center_, weight)
            gram = self._with_far_columns(gram, self.center_, weight, known)
        if self.scale_ is None:
            return gram
        upper = np.triu(gram / self.scale_ / self.scale_[:, None])
        return upper + np.triu(upper, 1).T  # divided in one order, or the halves would round differently

    def _rows(self, chosen: Index) -> Design:
        return ScaledDesign(self.base.rows(chosen), self.center_, self.scale_)

    def _with_far_columns(self, gram: Vector, center: Vector, weight: Vector, known: int) -> Vector:
        """(X − 1c')'D(X − 1c') with rows and columns of far means computed from centred entries."""
        far = np.flatnonzero(self._is_far(np.arange(self.shape[1])))
        if not far.size:
            return gram
        entries = [self._centred_column(int(j)) for j in far]
        weighted = [weight * column for column in entries]
        for j, column in zip(far, weighted, strict=True):
            gram[j] = gram[:, j] = self.base.rmatvec(column) - center * float(column.sum())
        for j, column in zip(far, entries, strict=True):
            gram[j, far] = gram[far, j] = [float(np.sum(column * other)) for other in weighted]
        gram[:known, :known] = 0.0
        return gram

    def _is_far(self, chosen: Index) -> NDArray[np.bool_]:
        """Return which of the chosen columns have a mean that is far greater than their deviation."""
        if self.center_ is None:
            return np.zeros(chosen.size, np.bool_)
        scale = np.ones(chosen.size) if self.scale_ is None else self.scale_[chosen]
        return np.asarray(np.abs(self.center_[chosen]) > _FAR_MEAN * scale, np.bool_)

    def _centred_column(self, j: int) -> Vector:
        """Return a column of X, centred."""
        assert self.center_ is not None
        unit = np.zeros(self.shape[1])
        unit[j] = 1.0
        return np.asarray(self.base.matvec(unit) - self.center_[j], np.float64)

    # X itself, whole or in blocks of rows

    def _parts(self) -> Iterator[tuple[slice, Design]]:
        """X as designs that kernels read: in one piece where it is one already, else copied block by block."""
        base = self.base.at_hand
        if isinstance(base, DenseDesign | SparseDesign):
            yield slice(None), base
            return
        yield from ((rows, self._block(np.arange(self.shape[0])[rows])) for rows in self._slices(self.shape[0]))

    def _slices(self, count: int) -> Iterator[slice]:
        step = max(1, _BLOCK // max(self.shape[1], 1))
        return (slice(start, start + step) for start in range(0, count, step))

    def _block(self, rows: Index) -> Design:
        """Return some rows of X, copied."""
        block = self.base._rows(rows)
        simple = isinstance(block, DenseDesign | SparseDesign)
        return block if simple else block.columns(np.arange(self.shape[1]))

    @property
    def _is_dense(self) -> bool:
        return isinstance(self.base, DenseDesign) or isinstance(self._block(np.empty(0, np.int64)), DenseDesign)

    def _sums(self, weight: Vector, power: int) -> Vector:
        """Σ_i s_i a_ij^power, `power` 1 or 2: from sums over X for columns that are scaled only."""
        d, entrywise = self.shape[1], self._entrywise
        if entrywise.size == d:
            return self._moments(weight)[power - 1]
        sums = self.base.rmatvec(weight) if power == 1 else self._scaled(self.base.column_squares(weight))
        sums = self._scaled(sums)
        if entrywise.size:
            sums[entrywise] = self._around(self.base._columns(entrywise), entrywise)._moments(weight)[power - 1]
        return sums

    @cached_property
    def _entrywise(self) -> Index:
        """Columns whose entries are centred or scaled before they are squared; all of them where these are many."""
        chosen = np.zeros(self.shape[1], np.bool_)
        if self.center_ is not None:
            chosen |= self.center_ != 0
        if self.scale_ is not None:
            chosen |= np.abs(np.frexp(self.scale_)[1]) > _SAFE_EXPONENT
        found = np.flatnonzero(chosen)
        many = self.base.stored_in(found) > _FEW_STORED_SHARE * self.stored
        return np.arange(self.shape[1]) if many else found

    def _moments(self, weight: Vector) -> tuple[Vector, Vector]:
        """Σ_i s_i a_ij and Σ_i s_i a_ij²."""
        sums, squares = np.zeros(self.shape[1]), np.zeros(self.shape[1])
        first, second = np.empty(self.shape[1]), np.empty(self.shape[1])
        for rows, part in self._parts():
            _kernels.column_moments(part.kernel, self.center_, self.scale_, weight[rows], first, second)
            sums += first
            squares += second
        return sums, squares

    def _dense_gram(self, center: Vector, weight: Vector, known: int) -> Vector:
        """A'DA except for the known corner: over blocks of rows of A, those of D > 0 and then those of D < 0."""
        gram = np.zeros((self.shape[1], self.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for sign in (1.0, -1.0):
                chosen = np.flatnonzero(sign * weight > 0)
                for places in self._slices(chosen.size):
                    rows = chosen[places]
                    part = self._block(rows)
                    assert isinstance(part, DenseDesign)
                    block = part.array.astype(np.float64, copy=False)  # a copy of X already
                    block -= center
                    if self.scale_ is not None:
                        block /= self.scale_
                    block *= np.sqrt(sign * weight[rows])[:, None]
                    new = block[:, known:]
                    gram[known:, known:] += sign * (new.T @ new)
                    gram[known:, :known] += sign * (new.T @ block[:, :known])
        gram[:known, known:] = gram[known:, :known].T
        return gram

    def _centred(self, gram: Vector, center: Vector, weight: Vector) -> Vector:
        """Return X'DX − (X'D1)c' − c(X'D1)' + (ΣD)cc', symmetric to the last bit."""
        outer = np.outer(self.base.rmatvec(weight) - 0.5 * float(weight.sum()) * center, center)
        return gram - (outer + outer.T)


def _own(name: str, value: ArrayLike, length: int) -> Vector:
    """Return a copy of a finite vector of that length."""
    own = np.array(vector(name, value, length))
    finite(name, own)
    own.flags.writeable = False
    return own


def _sample_weight(value: ArrayLike, n: int) -> Vector:
    """Weights s ≥ 0 of n samples, not all 0, in units of (a power of two above) the largest."""
    s = vector("sample_weight", value, n)
    finite("sample_weight", s)
    if np.any(s < 0) or not np.any(s > 0):
        raise InvalidInputError("sample_weight must not be negative, nor 0 for every sample")
    return np.ldexp(s, -int(np.frexp(s.max())[1]))
