"""The ridge: Σ_j r_j x_j², added to ψ.

It is treated as margins of its own. Below the margins of the samples stand the coefficients themselves, of all features
of the data:

    z = (Ax + o, x),      F(z, x) = F(z) + Σ_j r_j x_j²

so that ψ(x) stays a simple function of margins that are linear in x, and all that is made for such functions serves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Vector
from levelprox._validation import finite, real_array
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss


def check_smooth(loss: Loss) -> None:
    """Raise where the loss has kinks, naming losses without them."""
    if not loss.smooth:
        others = "'squared_hinge' or 'logistic'" if loss.kind == "margin" else "'huber' or 'squared'"
        raise InvalidInputError(f"ridge is for differentiable losses, not for {loss.name!r}; use {others}")


@dataclass(frozen=True, eq=False)
class Ridge:
    """Σ_j r_j x_j² over the features of a model; of several classes the sum over their coefficients.

    Attributes
    ----------
    strength : ndarray of shape (n_all,)
        r ≥ 0 of all features of the data, 0 for the intercept.
    places : ndarray of int of shape (n_features,)
        Where the features of the model are among them.
    """

    strength: Vector
    places: Features

    @classmethod
    def of(cls, ridge: ArrayLike, n_features: int, ones: NDArray[np.integer]) -> Ridge | None:
        """Check what a user gives: a number, or one for each feature, with or without the intercept's.

        None where it is 0 everywhere.
        """
        given = np.asarray(real_array("ridge", ridge), np.float64)
        counted = n_features - ones.size
        if given.shape not in ((), (counted,), (n_features,)):
            raise InvalidInputError(f"ridge must be a number, or one for each of {counted} features, got {given.shape}")
        finite("ridge", given)
        if np.any(given < 0):
            raise InvalidInputError(f"ridge must not be negative, got {given.min():g}")
        if not np.any(given):
            return None
        strength = np.zeros(n_features)
        features = np.delete(np.arange(n_features), ones)
        strength[features] = given[features] if given.shape == (n_features,) and ones.size else given
        return cls(strength, np.arange(n_features))

    @property
    def own(self) -> Vector:
        """R of the features of the model."""
        return np.asarray(self.strength[self.places], np.float64)

    def below(self, z: Vector, x: Vector) -> Vector:
        """Return the margins z of the samples, and below them the coefficients x."""
        rows = x.reshape(-1, *z.shape[1:])
        tail = np.zeros((self.strength.size, *z.shape[1:]))
        tail[self.places] = rows
        whole = np.concatenate([z, tail])
        by_columns = z.ndim > 1 and z.flags.f_contiguous and not z.flags.c_contiguous
        return np.asfortranarray(whole) if by_columns else np.ascontiguousarray(whole)

    def value(self, tail: Vector) -> float:
        """Return Σ r_j x_j², with the coefficients as they stand below margins."""
        return float(np.sum(self.strength.reshape(-1, *[1] * (tail.ndim - 1)) * tail**2))

    def gradient(self, tail: Vector) -> Vector:
        """Return 2 r_j x_j of the features of the model, flat."""
        own = self.own.reshape(-1, *[1] * (tail.ndim - 1))
        return np.asarray((2 * own * tail[self.places]).ravel(), np.float64)

    def curvatures(self, width: int = 1) -> Vector:
        """Return 2 r_j, one for each coordinate of the model."""
        return np.asarray(np.repeat(2 * self.own, width), np.float64)

    def restrict(self, W: Features) -> Ridge:
        """Return the ridge of some of the features."""
        return replace(self, places=self.places[W])

    def scaled(self, factor: Vector) -> Ridge:
        """Return the ridge of coefficients w with x_j = factor_j w_j."""
        strength = self.strength.copy()
        strength[self.places] *= factor**2
        return replace(self, strength=strength)

    def holds(self, x: Vector) -> bool:
        """Return whether it rises along x."""
        if not self.places.size:
            return False
        return bool(np.any(self.own[:, None] * np.abs(x.reshape(self.places.size, -1)) > 0))
