"""Designs: the data matrix X, one file per storage.

| design            | holds                         | read in place                                      |
|-------------------|-------------------------------|----------------------------------------------------|
| `DenseDesign`     | a NumPy array                 | C and Fortran order, float32 and float64           |
| `SparseDesign`    | the arrays of a SciPy matrix  | CSR and CSC, float32 and float64, both index types |
| `ScaledDesign`    | another design, c and s       | (X − 1c') diag(1/s), never formed                  |
| `InterceptDesign` | another design                | the same with one more column, of ones             |

`SelectedDesign` is some columns of another design, without a copy. Everything else is converted once, as the
first two classes above say. `DeferredDesign` is read at first use; `Chunked` is X in files, a
design for every chunk of rows, opened by `open_chunked`. `as_design` chooses and checks; what it returns is finite,
two-dimensional and safe for the kernels, and its type is not checked again.
"""

from __future__ import annotations

from levelprox.designs._base import Design, is_dask, is_on_device, is_remote, library_of
from levelprox.designs._base import check_finite as check_finite
from levelprox.designs._base import check_shape as check_shape
from levelprox.designs._base import column_name as column_name
from levelprox.designs.chunked import Chunked, open_chunked
from levelprox.designs.column_view import DeferredDesign, SelectedDesign
from levelprox.designs.dense import DenseDesign, as_design
from levelprox.designs.intercept import (
    InterceptDesign,
    precise_matvec,
    scaled_by,
    standardised,
    units_of,
    unstandardised,
)
from levelprox.designs.moments import RunningMoments
from levelprox.designs.repeated_rows import RepeatedRows
from levelprox.designs.scaled import ScaledDesign
from levelprox.designs.sparse import SparseDesign

__all__ = [
    "Chunked",
    "DeferredDesign",
    "DenseDesign",
    "Design",
    "InterceptDesign",
    "RepeatedRows",
    "RunningMoments",
    "ScaledDesign",
    "SelectedDesign",
    "SparseDesign",
    "as_design",
    "is_dask",
    "is_on_device",
    "is_remote",
    "library_of",
    "open_chunked",
    "precise_matvec",
    "scaled_by",
    "standardised",
    "units_of",
    "unstandardised",
]
