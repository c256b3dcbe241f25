"""A design is the data matrix X with the operations that algorithms need.

    Xx,   X'r,   some columns,   some rows,   X' diag(D) X,   Σ_i s_i X_ij²

All of it in float64 and in a fixed order of summation, for any type and storage of the data,
so algorithms do not depend on the kind of design.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import levelprox._kernels as _kernels
from levelprox._kernels import DesignKernel
from levelprox._typing import Index, Names, Vector
from levelprox._validation import finite, real_array
from levelprox.exceptions import InvalidInputError

_CACHED = 2**23  # bytes of X that are still in cache when they are read again
_SMALL = 2**27  # bytes that a copy may take besides its share
_PIECE = 2**20  # entries of X that are copied at a time


class Design(ABC):
    """The data matrix X, of n samples in rows and d features in columns.

    Attributes
    ----------
    shape : (int, int)
        n and d.
    dtype : dtype
        Type of the data, float32 or float64. Results are float64 for both.
    nbytes : int
        Memory the design refers to, the user's arrays included.
    kernel : DesignKernel
        What compiled code takes for X.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.designs import as_design
    >>> X = as_design(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> X.matvec([1.0, 1.0]).tolist(), X.rmatvec([1.0, 1.0]).tolist(), X.gram().tolist()
    ([3.0, 3.0], [1.0, 5.0], [[1.0, 2.0], [2.0, 13.0]])
    """

    shape: tuple[int, int]
    dtype: np.dtype[np.floating[Any]]
    nbytes: int
    kernel: DesignKernel

    #: Whether the kernels can read X row by row, as minibatches require.
    has_rows: bool = True

    #: The design that this one is made of, such as X for X with an intercept; None where it holds the data.
    base: Design | None = None

    #: Whether a view is a copy, however large it is.
    copies_columns: bool = False

    @property
    def ones(self) -> Index:
        """The columns that are an intercept: features that never count, in ascending order."""
        return np.empty(0, np.int64)

    @property
    @abstractmethod
    def stored(self) -> int:
        """How many entries are stored."""

    @property
    def at_hand(self) -> Design:
        """X in memory: itself, unless it is yet to be read."""
        return self

    def matvec(self, x: ArrayLike) -> Vector:
        """Xx, of shape (n,); without a pass over X where x is 0."""
        given = vector("x", x, self.shape[1])
        if not np.any(given):
            return np.zeros(self.shape[0])
        out = np.empty(self.shape[0])
        self.kernel.matvec(given, out)
        return out

    def rmatvec(self, r: ArrayLike) -> Vector:
        """X'r, of shape (d,)."""
        out = np.empty(self.shape[1])
        self.kernel.rmatvec(vector("r", r, self.shape[0]), out)
        return out

    def column_squares(self, weight: ArrayLike | None = None) -> Vector:
        """Σ_i s_i X_ij² for every feature j, with s = `weight` or 1; of shape (d,)."""
        out = np.empty(self.shape[1])
        self.kernel.column_squares(self._weight("weight", weight), out)
        return out

    def row_squares(self) -> Vector:
        """Σ_j X_ij² for every sample i; of shape (n,)."""
        out = np.empty(self.shape[0])
        self.kernel.row_squares(out)
        return out

    def weighted_sums(self, weight: Vector) -> Vector:
        """X's, as `rmatvec`, but with the digits of each column's spread even where its mean is far greater."""
        return self.rmatvec(weight)

    def row_magnitudes(self, x: ArrayLike) -> Vector:
        """Σ_j |X_ij x_j| of the terms that Xx is summed from, to which its rounding is proportional; of shape (n,)."""
        sizes, n = np.abs(vector("x", x, self.shape[1])), self.shape[0]
        used = np.flatnonzero(sizes).astype(np.int64, copy=False)
        step = max(1, _PIECE // max(used.size, 1))
        if used.size == self.shape[1] and n <= step and self.base is None:
            return self._absolute_matvec(sizes)
        out = np.empty(n)
        for begin in range(0, n, step):
            end = min(n, begin + step)
            out[begin:end] = self._piece(used, begin, end)._absolute_matvec(sizes[used])
        return out

    def _absolute_matvec(self, sizes: Vector) -> Vector:
        """Σ_j |X_ij| sizes_j, of a small piece of X."""
        raise NotImplementedError

    def column_magnitudes(self) -> Vector:
        """max_i |X_ij| of every feature j, or more; of shape (d,). Here ‖X_j‖."""
        return np.sqrt(self.column_squares())

    def column_noise(self) -> Vector | None:
        """Return what rounding a coefficient of 1 does to Xx besides: coefficients of the data multiply means, too."""
        return None

    def gram(self, D: ArrayLike | None = None, known: Vector | None = None) -> Vector:
        """X' diag(D) X, or X'X: a symmetric array of shape (d, d). D may have either sign.

        Parameters
        ----------
        D : array-like of shape (n,), optional
            Weights of the samples; None is all 1.
        known : ndarray of shape (k, k), optional
            The Gram matrix of the first k features with the same D. It is copied into the result, and only the
            other rows and columns are computed.
        """
        weight = None if D is None else self._weight("D", D)
        if known is None or not known.size:
            return self._gram(weight, 0)
        if known.ndim != 2 or known.shape[0] != known.shape[1] or known.shape[0] > self.shape[1]:
            raise InvalidInputError(f"known must be square with at most {self.shape[1]} rows, got shape {known.shape}")
        gram = self._gram(weight, known.shape[0])
        gram[: known.shape[0], : known.shape[0]] = known
        return gram

    def row_blocks(self) -> Iterator[tuple[slice, Design]]:
        """X in blocks of rows, each small enough to stay in cache between two uses of it; itself where it has none."""
        yield slice(0, self.shape[0]), self

    def _cached_rows(self) -> int:
        """How many rows stay in cache."""
        return max(1, self.shape[0] * _CACHED // max(self.nbytes, 1))

    def columns(self, W: ArrayLike) -> Design:
        """X[:, W], copied, for a mask of the features or their indices, in any order, repeats allowed."""
        return self._columns(positions("W", W, self.shape[1]))

    def view(self, W: ArrayLike) -> Design:
        """X[:, W], copied only where the copy is small.

        All features in their order are X itself; a copy takes at most a quarter of the memory of X and 128 MiB
        more; any other selection is a `SelectedDesign`, which reads X where it lies. A design around another one
        selects its own part, such as center and scale, around the selected columns of the other.
        """
        from levelprox.designs.column_view import SelectedDesign  # a design itself

        design: Design = self
        chosen, around = positions("W", W, self.shape[1]), list[tuple[Design, Index]]()
        while True:
            if chosen.size == design.shape[1] and np.array_equal(chosen, np.arange(chosen.size)):
                part = design
                break
            if design.base is None:
                small = design.copies_columns or design._is_small(chosen)
                part = design._columns(chosen) if small else SelectedDesign(design, chosen)
                break
            around.append((design, chosen))
            design, chosen = design.base, design._in_base(chosen)
        for outer, places in reversed(around):
            part = outer._around(part, places)
        return part

    def _is_small(self, chosen: Index) -> bool:
        """Return whether a copy of these columns takes at most a quarter of the memory of X and 128 MiB more."""
        return self.nbytes * self.stored_in(chosen) // max(self.stored, 1) <= _SMALL + self.nbytes // 4

    def linear_model(
        self,
        loss: tuple[str, float, float],
        target: Vector,
        weight: Vector | None,
        offset: Vector | None,
        ones: Index | None = None,
    ) -> _kernels.Objective:
        """Return the kernel of Σ s_i ℓ(⟨a_i, x⟩ + o_i, b_i) / Σ s_i, in passes over X as it is stored.

        `loss` is `Loss.kernel`; `ones` are the places of further columns, of ones, among those of X.
        """
        model = _kernels.LinearModel(self.kernel, *loss, target, weight, offset)
        return model if ones is None else _kernels.AffineModel(model, None, None, ones)

    def rows(self, B: ArrayLike) -> Design:
        """X[B], copied, for a mask of the samples or their indices, in any order, repeats allowed."""
        return self._rows(positions("B", B, self.shape[0]))

    @abstractmethod
    def row_major(self) -> Design:
        """X stored row after row: itself where it is, else a copy."""

    def stored_in(self, chosen: Index) -> int:
        """How many entries of these columns are stored, repeats included."""
        return self.stored * chosen.size // max(self.shape[1], 1)

    @abstractmethod
    def _gram(self, weight: Vector | None, known: int) -> Vector:
        """Return the Gram matrix, in which the leading block of size `known` may have any content."""

    def _piece(self, chosen: Index, begin: int, end: int) -> Design:
        """X[begin:end, chosen], copied, stored as suits its Gram matrix."""
        return self._rows(np.arange(begin, end))._columns(chosen)

    def _columns(self, chosen: Index) -> Design:
        assert self.base is not None
        return self._around(self.base._columns(self._in_base(chosen)), chosen)

    def _in_base(self, chosen: Index) -> Index:
        """Return the places in `base` of the chosen columns."""
        return chosen

    def _around(self, part: Design, chosen: Index) -> Design:
        """Return the chosen columns of this design, where `part` is those of `base`."""
        return part

    @abstractmethod
    def _rows(self, chosen: Index) -> Design: ...

    def _weight(self, name: str, weight: ArrayLike | None) -> Vector:
        if weight is None:
            return np.ones(self.shape[0])
        s = vector(name, weight, self.shape[0])
        finite(name, s)
        return s

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


def vector(name: str, value: ArrayLike, length: int) -> Vector:
    """`value` as a contiguous float64 vector of that length."""
    array = real_array(name, value)
    if array.shape != (length,):
        raise InvalidInputError(f"{name} must have shape ({length},), got {array.shape}")
    return np.ascontiguousarray(array, dtype=np.float64)


def positions(name: str, value: ArrayLike, size: int) -> Index:
    """Return indices in 0..size-1, from indices or from a mask."""
    array = np.asarray(value)
    if array.dtype == np.bool_:
        if array.shape != (size,):
            raise InvalidInputError(f"the mask {name} must have shape ({size},), got {array.shape}")
        return np.flatnonzero(array).astype(np.int64, copy=False)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"{name} must be a mask or a 1-D array of integers, got dtype {array.dtype} and shape {array.shape}"
        )
    bad = np.flatnonzero((array < 0) | (array >= size))
    if bad.size:
        raise InvalidInputError(f"{name}[{bad[0]}] is {array[bad[0]]}, outside 0..{size - 1}")
    return np.ascontiguousarray(array, dtype=np.int64)


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless there are two dimensions, and something in each."""
    if len(shape) != 2:
        hint = "; reshape with X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample"
        raise InvalidInputError(f"X must be 2-D, got shape {shape}{hint if len(shape) == 1 else ''}")
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise InvalidInputError(f"X has 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def check_finite(kernel: DesignKernel, names: Names | None = None) -> None:
    """Raise if an entry of X is NaN or infinite, and say where."""
    count, row, column, value = kernel.nonfinite()
    if count:
        name = "NaN" if np.isnan(value) else f"{value}"
        raise InvalidInputError(f"X contains {name} at row {row}, {column_name(column, names)} ({count} in total)")


def column_name(j: int, names: Names | None = None) -> str:
    """Return what a message calls column j of X."""
    return f"column {j}" if names is None else f"column {j} ({str(names[j])!r})"


_DASK = ("dask", "dask_expr")
_DEVICES = ("torch", "cupy", "cupyx")


def library_of(X: object) -> str:
    """Return the name of the package of X's type.

    Parameters
    ----------
    X : object
        Data of any kind.

    Returns
    -------
    str
        Such as "numpy", "scipy", "dask" or "torch".

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import designs
    >>> designs.library_of(np.ones(2))
    'numpy'
    """
    return type(X).__module__.split(".")[0]


def is_dask(X: object) -> bool:
    """Return whether X is an array or a dataframe of Dask.

    Parameters
    ----------
    X : object
        Data of any kind.

    Returns
    -------
    bool
        False for all other types.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import designs
    >>> designs.is_dask(np.ones(2))
    False
    """
    return library_of(X) in _DASK


def is_on_device(X: object) -> bool:
    """Return whether X is a tensor of torch or an array of cupy.

    Parameters
    ----------
    X : object
        Data of any kind.

    Returns
    -------
    bool
        False for all other types.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import designs
    >>> designs.is_on_device(np.ones(2))
    False
    """
    return library_of(X) in _DEVICES


def is_remote(X: object) -> bool:
    """Return whether X is outside the memory of this process: of Dask, on a device, or in files (`Chunked`).

    Parameters
    ----------
    X : object
        Data of any kind.

    Returns
    -------
    bool
        False for arrays in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import designs
    >>> designs.is_remote(np.ones((2, 2)))
    False
    """
    return library_of(X) in (*_DASK, *_DEVICES) or getattr(X, "is_chunked", False) is True
