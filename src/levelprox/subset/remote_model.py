"""Second-order models of ψ of remote data: what they predict of sets of features and of swaps, in this process."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.subset.fit import Fit
from levelprox.subset.starts import search_by_model

_BRIEF_WORK = 2e6  # k |C|²: searches of larger models are brief, a fraction of a second
_FLAT_SHARE = 1e-9  # of its curvature: the rest of a candidate that is almost a combination of the others


@dataclass(frozen=True, eq=False)
class RemoteFit(Fit):
    """ψ minimised over some features, with its gradient over all of them in place of margins."""

    @property
    def gradient(self) -> Vector:
        """∇ψ over all features."""
        return self.margins


class SecondOrderModel:
    """The second-order model of ψ at a fit, over candidates C that contain the features S of the fit.

    With K = (H_SS)⁻¹, x* = x_S − K g_S minimises it over S. Without feature i the others move by −K_i x*_i/K_ii, which
    costs x*_i²/(2 K_ii); candidate j then gains its slope squared over twice what is left of its curvature.

    Parameters
    ----------
    fit : RemoteFit
    candidates : ndarray of int
        C, sorted.
    hessian : ndarray of shape (|C|, |C|)
        H, at the fit.
    """

    def __init__(self, fit: RemoteFit, candidates: Features, hessian: Matrix) -> None:
        self.fit, self.candidates, self.hessian = fit, candidates, hessian
        self.gradient = fit.gradient[candidates]
        self.places = np.searchsorted(candidates, fit.features)
        self.x = np.zeros(candidates.size)
        self.x[self.places] = fit.x

    def is_large(self, k: int) -> bool:
        """Return whether a search for k features has to be brief."""
        return k * self.x.size**2 > _BRIEF_WORK

    def best(self, k: int, kept: Features) -> Features | None:
        """Return the best k candidates besides those that are kept; None where there is no minimum."""
        search = self._search(kept)
        if search is None:
            return None
        begin = self.places.tolist() if self.fit.features.size - kept.size == k else None
        return self.candidates[search.best(k, begin, self.is_large(k))]

    def forward(self, k: int, kept: Features) -> Features | None:
        """Return the first k candidates of forward selection, and those that are kept; None as above."""
        search = self._search(kept)
        return None if search is None else np.union1d(kept, self.candidates[search.forward(k)]).astype(np.intp)

    def _search(self, kept: Features) -> _kernels.GramSearch | None:
        return search_by_model(self.gradient, self.hessian, self.x, np.searchsorted(self.candidates, kept))

    def minimum(self, features: Features) -> RemoteFit:
        """Return the minimum over some of the candidates, the others being zero."""
        S = np.searchsorted(self.candidates, features)
        begin = np.zeros(self.x.size)
        begin[S] = self.x[S]
        slope = self.gradient + self.hessian @ (begin - self.x)
        values = begin[S] - np.linalg.pinv(self.hessian[np.ix_(S, S)], hermitian=True) @ slope[S]
        return RemoteFit(features, values, math.inf, np.empty(0))

    @functools.cached_property
    def _inverse(self) -> Matrix:
        """K."""
        inverse = np.linalg.pinv(self.hessian[np.ix_(self.places, self.places)], hermitian=True)
        return np.asarray(inverse, np.float64)

    @functools.cached_property
    def _moved(self) -> Matrix:
        """K H_Sj of every candidate j, in rows: by how much the features of the fit move for it."""
        return self.hessian[:, self.places] @ self._inverse

    @functools.cached_property
    def _slopes(self) -> Vector:
        """The gradient at x*."""
        return self.gradient - self._moved @ self.gradient[self.places]

    @functools.cached_property
    def _left(self) -> Vector:
        """What the features of the fit leave of each curvature."""
        left: Vector = np.diagonal(self.hessian) - np.sum(self._moved * self.hessian[:, self.places], axis=1)
        return left

    def _gain(self, slope: Matrix, left: Matrix) -> Matrix:
        bends = left > _FLAT_SHARE * np.diagonal(self.hessian)
        gain: Matrix = np.where(bends, slope**2 / (2 * np.where(bends, left, 1.0)), 0.0)
        gain[..., self.places] = 0.0
        return gain

    def best_addition(self, signs: Mask) -> int | None:
        """Return the candidate that gains most, if any does; those with a sign only upwards."""
        slope = np.where(signs[self.candidates], np.minimum(self._slopes, 0.0), self._slopes)
        gain = self._gain(slope, self._left)
        best = int(np.argmax(gain))
        return int(self.candidates[best]) if gain[best] > 0 else None

    def swaps(self, leaves: Mask, most: int) -> Iterator[RemoteFit]:
        """Yield the minimum after each swap, those first that lower the model most, of features that may leave."""
        S, K, moved = self.places, self._inverse, self._moved
        own = np.maximum(np.diagonal(K), np.finfo(np.float64).tiny)
        fitted = self.x[S] - K @ self.gradient[S]
        slope = self._slopes[None, :] - (fitted / own)[:, None] * moved.T
        left = self._left[None, :] + (moved**2 / own).T
        gain = self._gain(slope, left)
        change = np.where(gain > 0, (fitted**2 / (2 * own))[:, None] - gain, math.inf)
        change[~leaves] = math.inf
        for place in np.argsort(change, axis=None, kind="stable")[:most]:
            i, j = np.unravel_index(place, change.shape)
            if not math.isfinite(change[i, j]):
                return
            step = -slope[i, j] / left[i, j]
            values = fitted - K[:, i] * (fitted[i] / own[i]) - step * (moved[j] - K[:, i] * (moved[j, i] / own[i]))
            at = np.searchsorted(features := np.delete(self.fit.features, i), self.candidates[j])
            x = np.insert(np.delete(values, i), at, step)
            yield RemoteFit(np.insert(features, at, self.candidates[j]), x, math.inf, np.empty(0))
