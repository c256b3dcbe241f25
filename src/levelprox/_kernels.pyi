from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

_F64 = NDArray[np.float64]

def loss_value(name: str, parameter: float, z: _F64, b: _F64, weight: _F64 | None) -> float: ...
def loss_derivative(
    name: str, parameter: float, z: _F64, b: _F64, weight: _F64 | None, out: _F64
) -> None: ...
def loss_curvature(name: str, parameter: float, z: _F64, b: _F64, weight: _F64 | None, out: _F64) -> None: ...
def loss_slope(name: str, parameter: float, z: _F64, b: _F64, out: _F64) -> None: ...

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

class LinearModel:
    def __init__(
        self,
        design: DesignKernel,
        loss: str,
        parameter: float,
        target: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
    ) -> None: ...
    def value_and_gradient(self, x: NDArray[np.float64], gradient: NDArray[np.float64]) -> float: ...

class SpectralOutcome(TypedDict):
    x: NDArray[np.float64]
    gradient: NDArray[np.float64]
    psi: float
    step: float
    multiplier: float
    residual: float
    steps: int
    evaluations: int
    stop: str

def spectral(
    objective: object,
    x: NDArray[np.float64],
    gradient: NDArray[np.float64],
    psi: float,
    step: float,
    multiplier: float,
    gamma: float,
    omega: NDArray[np.float64] | None,
    u: NDArray[np.float64] | None,
    nonnegative: NDArray[np.uint8] | None,
    all_nonnegative: bool,
    tau: float,
    max_steps: int,
    memory: int,
    decrease: float,
    relative: float,
    absolute: float,
    seconds: float,
) -> SpectralOutcome: ...
