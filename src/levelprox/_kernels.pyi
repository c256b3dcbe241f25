"""The compiled half of levelprox, as seen from Python."""

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

_F64 = NDArray[np.float64]

# Deadlines (bind_deadline.cpp)

class TimeLimitError(TimeoutError): ...

def clock() -> float: ...
def set_deadline(at: float, grace: float) -> tuple[float, float]: ...

# Designs (bind_designs.cpp)

def simd_name() -> str: ...
def use_simd(name: str) -> None: ...
def thread_count() -> int: ...
def set_thread_work(work: int) -> int: ...
def set_thread_defaults(environment: int, quota: int) -> None: ...

_Sparse = tuple[NDArray[np.floating[Any]], NDArray[np.signedinteger[Any]], NDArray[np.int64]]

class DesignKernel:
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def by_rows(self) -> bool: ...
    def matvec(self, x: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def rmatvec(self, r: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def column_squares(self, weight: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def row_squares(self, out: NDArray[np.float64]) -> None: ...
    def nonfinite(self) -> tuple[int, int, int, float]: ...

class Dense(DesignKernel):
    def __init__(self, array: NDArray[np.floating[Any]]) -> None: ...
    def take_slices(self, chosen: NDArray[np.int64], out: NDArray[np.floating[Any]]) -> None: ...
    def take_within(self, chosen: NDArray[np.int64], begin: int, out: NDArray[np.floating[Any]]) -> None: ...
    def gram(self, weight: _F64, known: int, out: _F64) -> None: ...

class Sparse(DesignKernel):
    def __init__(
        self,
        data: NDArray[np.floating[Any]],
        indices: NDArray[np.signedinteger[Any]],
        indptr: NDArray[np.int64],
        rows: int,
        columns: int,
        by_rows: bool,
    ) -> None: ...
    def has_duplicates(self) -> bool: ...
    def is_sorted(self) -> bool: ...
    def column_counts(self, out: _F64) -> None: ...
    def select_rows(self, chosen: NDArray[np.int64]) -> _Sparse: ...
    def select_columns(self, chosen: NDArray[np.int64]) -> _Sparse: ...
    def select_piece(self, chosen: NDArray[np.int64], begin: int, end: int, sorted: bool) -> _Sparse: ...
    def gram(self, weight: _F64, known: int, dense: bool, out: _F64) -> None: ...

# Fingerprints (bind_fingerprint.cpp)

def fingerprint(X: DesignKernel) -> tuple[int, int]: ...

# Losses (bind_losses.cpp)

# `name`, `parameter` and `width` are `Loss.kernel`.
def loss_value(name: str, parameter: float, width: float, z: _F64, b: _F64, weight: _F64 | None) -> float: ...
def loss_derivative(
    name: str, parameter: float, width: float, z: _F64, b: _F64, weight: _F64 | None, out: _F64
) -> None: ...
def loss_curvature(
    name: str, parameter: float, width: float, z: _F64, b: _F64, weight: _F64 | None, out: _F64
) -> None: ...
def loss_slope(name: str, parameter: float, width: float, z: _F64, b: _F64, out: _F64) -> None: ...

# Projection (bind_projection.cpp)

def project_rows(
    v: NDArray[Any],
    u: NDArray[Any] | None,
    omega: NDArray[Any] | None,
    nonnegative: NDArray[np.uint8] | None,
    all_nonnegative: bool,
    tau: NDArray[np.float64],
    start: NDArray[np.float64],
    out: NDArray[Any],
    multiplier: NDArray[np.float64],
    width: int = 1,
) -> tuple[int, str]: ...
def group_norms(x: _F64, out: _F64) -> None: ...

# Objectives, and sums over a centred and scaled X (bind_affine.cpp)

class Objective:
    @property
    def dimension(self) -> int: ...
    def value_and_gradient(self, x: NDArray[np.float64], gradient: NDArray[np.float64]) -> float: ...

class AffineModel(Objective):
    def __init__(
        self, model: LinearModel, center: _F64 | None, scale: _F64 | None, ones: NDArray[np.int64] | None
    ) -> None: ...

def column_sums(X: DesignKernel, weight: _F64 | None, unit: float, sum: _F64, low: _F64, high: _F64) -> None: ...
def column_moments(
    X: DesignKernel, center: _F64 | None, scale: _F64 | None, weight: _F64, first: _F64, second: _F64
) -> None: ...
def affine_row_squares(X: DesignKernel, center: _F64 | None, scale: _F64 | None, out: _F64) -> None: ...

# The linear model and the spectral subsolver (bind_spectral.cpp)

class LinearModel(Objective):
    def __init__(
        self,
        design: DesignKernel,
        loss: str,
        parameter: float,
        width: float,
        target: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        offset: NDArray[np.float64] | None,
    ) -> None: ...

class Set:
    def __init__(
        self,
        dimension: int,
        omega: NDArray[np.float64] | None,
        u: NDArray[np.float64] | None,
        nonnegative: NDArray[np.uint8] | None,
        all_nonnegative: bool,
        tau: float,
        width: int = 1,
    ) -> None: ...

class SpectralOutcome(TypedDict):
    x: NDArray[np.float64]
    gradient: NDArray[np.float64]
    psi: float
    step: float
    multiplier: float
    residual: float
    steps: int
    evaluations: int
    projections: int
    stop: str

class AcsaOutcome(TypedDict):
    x: NDArray[np.float64]
    multiplier: float
    steps: int
    projections: int
    stop: str

class AcsaSettings:
    def __init__(
        self, steps: int, strong_convexity: float, smoothness: float, gamma: float, seconds: float
    ) -> None: ...

def acsa(objective: object, set: Set, center: _F64, x: _F64, settings: AcsaSettings) -> AcsaOutcome: ...
def acsa_oracle(
    oracle: Callable[[_F64], _F64], set: Set, center: _F64, x: _F64, settings: AcsaSettings
) -> AcsaOutcome: ...
def acsa_batches(
    model: LinearModel,
    set: Set,
    center: _F64,
    x: _F64,
    settings: AcsaSettings,
    draw: Callable[[], NDArray[np.int64]],
    batch: int,
) -> AcsaOutcome: ...

class NesterovOutcome(TypedDict):
    x: NDArray[np.float64]
    multiplier: float
    steps: int
    evaluations: int
    projections: int
    stop: str

def nesterov(
    objective: object,
    set: Set,
    center: NDArray[np.float64],
    x: NDArray[np.float64],
    gradient: NDArray[np.float64],
    multiplier: float,
    gamma: float,
    max_steps: int,
    strong_convexity: float,
    smoothness: float,
    relative: float,
    absolute: float,
    seconds: float,
) -> NesterovOutcome: ...
def spectral(
    objective: object,
    set: Set,
    center: NDArray[np.float64],
    x: NDArray[np.float64],
    gradient: NDArray[np.float64],
    psi: float,
    step: float,
    multiplier: float,
    gamma: float,
    max_steps: int,
    memory: int,
    decrease: float,
    relative: float,
    absolute: float,
    seconds: float,
    units: _F64 | None = None,
    means: _F64 | None = None,
    intercept: int = -1,
) -> SpectralOutcome: ...

# The multinomial model (bind_multinomial.cpp)

def multinomial_value(z: _F64, label: NDArray[np.int64], weight: _F64 | None) -> float: ...
def multinomial_derivative(z: _F64, label: NDArray[np.int64], weight: _F64 | None, out: _F64) -> None: ...
def multinomial_probabilities(z: _F64, out: _F64) -> None: ...
def multinomial_bends(z: _F64, share: _F64, rooted: _F64, bend: _F64) -> None: ...

class MultinomialModel(Objective):
    def __init__(
        self,
        design: DesignKernel,
        classes: int,
        label: NDArray[np.int64],
        weight: _F64 | None,
        offset: _F64 | None,
    ) -> None: ...
    def value_and_gradient(self, x: _F64, gradient: _F64) -> float: ...

# Minibatch steps (bind_stochastic.cpp)

def stochastic_steps(
    model: LinearModel,
    set: Set,
    x: NDArray[np.float64],
    center: NDArray[np.float64],
    gamma: float,
    samples: NDArray[np.int64],
    batch: int,
    steps: NDArray[np.float64],
    slope: NDArray[np.float64] | None,
    gradient: NDArray[np.float64] | None,
    seconds: float,
    multiplier: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> str: ...
def sample_slopes(model: LinearModel, x: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...

# The second-order model over a set (bind_quadratic.cpp)

class QuadraticOutcome(TypedDict):
    x: _F64
    multiplier: float
    residual: float
    decrease: float
    products: int
    projections: int
    accurate: bool

# H is an array of shape (d, d), or v -> Hv; the model is H + diag(ridge), `diagonal` that of H.
def quadratic(
    hessian: object,
    set: Set,
    x: _F64,
    gradient: _F64,
    diagonal: _F64,
    ridge: _F64,
    multiplier: float,
    relative: float,
    max_products: int,
) -> QuadraticOutcome: ...

# Fits over a few columns (bind_column_fits.cpp)

class ClassFits:
    def __init__(self, classes: int, label: NDArray[np.int64], weight: _F64 | None, offset: _F64 | None) -> None: ...
    # As of ColumnFits, with K coefficients for each column.
    def fit(
        self,
        columns: list[_F64],
        x: list[float],
        tolerance: float,
        below: float,
        accuracy: float,
        noise: list[float],
        ridge: list[float] = ...,
    ) -> tuple[str, _F64, float, _F64, _F64, float, float]: ...

class ColumnFits:
    def __init__(
        self,
        loss: str,
        parameter: float,
        width: float,
        concordance: float,
        target: _F64,
        weight: _F64 | None,
        offset: _F64 | None,
        convex: bool = True,
        attained: bool = True,
        curvature_bound: float = ...,
    ) -> None: ...
    # "fitted", "not below" or "failed", then x, psi, margins and Hessian there, a bound on what is left to gain, and
    # what rounding may change.
    # Column j is values[j], or where rows[j] are given has values[j] there and is 0 elsewhere.
    def fit(
        self,
        values: list[_F64],
        rows: list[NDArray[np.int64] | None],
        x: list[float],
        tolerance: float,
        below: float,
        accuracy: float = ...,
        noise: list[float] = ...,
        ridge: list[float] = ...,
    ) -> tuple[str, _F64, float, _F64, _F64, float, float]: ...
    # The least psi along each column by itself, from given margins.
    def least_along(
        self, values: list[_F64], rows: list[NDArray[np.int64] | None], margins: _F64, ridge: list[float] = ...
    ) -> _F64: ...

# The best k features of 1/2 x'Gx - c'x; those that are kept are in every set and do not count.
class GramSearch:
    def __init__(self, gram: _F64, pull: _F64, square: float, kept: NDArray[np.uint8]) -> None: ...
    # The features, ascending, kept ones included; exchanges begin at given ones alone, where they are.
    # A brief search leaves a set only by way of one feature less or more.
    def best(self, k: int, begin: list[int] | None = None, brief: bool = False) -> list[int]: ...

# Vectors that are orthonormal for the weights, one a row, and the coordinates of each column in them, one column a row.
def orthonormal_basis(values: list[_F64], rows: list[NDArray[np.int64] | None], weight: _F64) -> tuple[_F64, _F64]: ...

# (rho + (1 - rho) ln(1 - rho)) / rho^2, rounded up; inf for rho > 1.
def self_concordant_factor(rho: _F64) -> _F64: ...

# max(|offset + slope y| over the support, offset + slope y over zeros, 0); zeros have a slope each, or one for all.
# y, stationarity and complementarity
def best_multiplier(
    support_offset: _F64,
    support_slope: _F64,
    zero_offset: _F64,
    zero_slope: _F64,
    support_room: _F64,
    zero_room: _F64,
    slack: float,
    level: float,
    curvature: float,
) -> tuple[float, float, float]: ...
def largest_residual(
    support_offset: _F64, support_slope: _F64, zero_offset: _F64, zero_slope: _F64, y: float
) -> float: ...

# LIBSVM text (bind_libsvm.cpp)

LIBSVM_TOKEN_LIMIT: int

class LibsvmParser:
    def __init__(self, features: int, zero_based: bool, single: bool) -> None: ...
    def feed(self, text: NDArray[np.uint8], rows: int = -1) -> int: ...
    def finish(self) -> None: ...
    @property
    def trouble(self) -> tuple[str, int, int, int, bytes] | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def features(self) -> int: ...
    def take(
        self, features: int
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.signedinteger[Any]], NDArray[np.signedinteger[Any]], _F64]: ...
