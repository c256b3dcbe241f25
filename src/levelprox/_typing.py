"""Type aliases of arrays and paths that the whole package shares."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.floating[Any]]  # float32 or float64

Vector: TypeAlias = NDArray[np.float64]  # one axis
Matrix: TypeAlias = NDArray[np.float64]  # two axes
Mask: TypeAlias = NDArray[np.bool_]

Features: TypeAlias = NDArray[np.intp]  # indices of columns
Rows: TypeAlias = NDArray[np.intp]  # indices of samples
Index: TypeAlias = NDArray[np.int64]  # as the compiled kernels take them

Names: TypeAlias = Sequence[str] | NDArray[Any]
PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Rng: TypeAlias = np.random.Generator | None
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

#: Margins z = Ax + o: an array for data in memory, a `RemotePoint` for remote data. Only the model itself reads them.
Margins: TypeAlias = Any
