"""The compiled half of levelprox, as seen from Python."""

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

_F64 = NDArray[np.float64]

# Designs (bind_designs.cpp)

def simd_name() -> str: ...
def use_simd(name: str) -> None: ...
def thread_count() -> int: ...

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
) -> tuple[int, str]: ...

# The linear model and the spectral subsolver (bind_spectral.cpp)

class LinearModel:
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
    def value_and_gradient(self, x: NDArray[np.float64], gradient: NDArray[np.float64]) -> float: ...

class Set:
    def __init__(
        self,
        dimension: int,
        omega: NDArray[np.float64] | None,
        u: NDArray[np.float64] | None,
        nonnegative: NDArray[np.uint8] | None,
        all_nonnegative: bool,
        tau: float,
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
) -> SpectralOutcome: ...

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
