"""PLACEHOLDER until the reader's own file is merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from levelprox.errors import FileFormatError

MAX_FEATURES = 10**9


def read_libsvm(path: Any, *, n_features: int | None = None, zero_based: bool = False, dtype: Any = np.float64) -> Any:
    """PLACEHOLDER."""
    from sklearn.datasets import load_svmlight_file

    from levelprox.io.opened import opened

    with opened(path) as file:
        try:
            X, y = load_svmlight_file(file, n_features=n_features, zero_based=zero_based, dtype=dtype)
        except ValueError as error:
            raise FileFormatError(f"{path}: {error}") from error
    return scipy.sparse.csr_array(X), y


def libsvm_batches(path: Any, rows: int, *, n_features: int, zero_based: bool = False) -> Iterator[Any]:
    """PLACEHOLDER."""
    X, y = read_libsvm(path, n_features=n_features, zero_based=zero_based)
    for i in range(0, y.size, rows):
        yield X[i : i + rows], y[i : i + rows]
