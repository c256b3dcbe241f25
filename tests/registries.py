"""What the tests run over: every constraint, loss, design and subsolver there is."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse

from levelprox.designs import Design, as_design

# Designs: from a float64 array to every kind of storage. Those named float32 round its entries.


def strided(X: np.ndarray) -> np.ndarray:
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
    wide[::-2, ::3] = X
    return wide[::-2, ::3]


def with_indices(X: scipy.sparse.sparray, indices: type, indptr: type) -> scipy.sparse.sparray:
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indptr)
    return X


def unsorted(X: scipy.sparse.sparray) -> scipy.sparse.sparray:
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:end] = X.indices[start:end][::-1].copy()
        X.data[start:end] = X.data[start:end][::-1].copy()
    X.has_sorted_indices = False
    return X


def in_halves(X: scipy.sparse.sparray) -> scipy.sparse.sparray:
    """Every entry stored as two halves, far apart from each other."""
    slices = [slice(start, end) for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    data = [part for s in slices for part in (X.data[s] / 2, X.data[s] / 2)]
    indices = [part for s in slices for part in (X.indices[s], X.indices[s])]
    return type(X)((np.concatenate(data), np.concatenate(indices), 2 * X.indptr), shape=X.shape)


def with_zeros(X: np.ndarray) -> scipy.sparse.sparray:
    full = scipy.sparse.csr_array(np.ones_like(X))
    full.data[:] = X.ravel()
    return full


def dia(X: np.ndarray) -> scipy.sparse.sparray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.sparse.SparseEfficiencyWarning)
        return scipy.sparse.dia_array(X)


csr, csc = scipy.sparse.csr_array, scipy.sparse.csc_array

DESIGNS: dict[str, Callable[[np.ndarray], Design]] = {
    "dense C": lambda X: as_design(np.ascontiguousarray(X)),
    "dense Fortran": lambda X: as_design(np.asfortranarray(X)),
    "dense strided": lambda X: as_design(strided(X)),
    "dense big-endian": lambda X: as_design(X.astype(">f8")),
    "dense C float32": lambda X: as_design(np.ascontiguousarray(X, dtype=np.float32)),
    "dense Fortran float32": lambda X: as_design(np.asfortranarray(X, dtype=np.float32)),
    "CSR": lambda X: as_design(csr(X)),
    "CSC": lambda X: as_design(csc(X)),
    "CSR matrix": lambda X: as_design(scipy.sparse.csr_matrix(X)),
    "CSR float32": lambda X: as_design(csr(X.astype(np.float32))),
    "CSC float32": lambda X: as_design(csc(X.astype(np.float32))),
    "CSR int64": lambda X: as_design(with_indices(csr(X), np.int64, np.int64)),
    "CSC int64": lambda X: as_design(with_indices(csc(X), np.int64, np.int64)),
    "CSC float32 int64": lambda X: as_design(with_indices(csc(X.astype(np.float32)), np.int64, np.int64)),
    "CSR mixed indices": lambda X: as_design(with_indices(csr(X), np.int32, np.int64)),
    "CSR unsorted": lambda X: as_design(unsorted(csr(X))),
    "CSC unsorted": lambda X: as_design(unsorted(csc(X))),
    "CSR in halves": lambda X: as_design(in_halves(csr(X))),
    "CSC in halves": lambda X: as_design(in_halves(csc(X))),
    "CSR explicit zeros": lambda X: as_design(with_zeros(X)),
    "COO": lambda X: as_design(scipy.sparse.coo_matrix(X)),
    "LIL": lambda X: as_design(scipy.sparse.lil_array(X)),
    "DOK": lambda X: as_design(scipy.sparse.dok_array(X)),
    "DIA": lambda X: as_design(dia(X)),
    "BSR": lambda X: as_design(scipy.sparse.bsr_array(X)),
}
