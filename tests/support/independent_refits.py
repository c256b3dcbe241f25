"""The least ψ over a set of features, by refits that share no code with levelprox.

Every set is refitted in an orthonormal basis of its columns, which is computed in extended precision:

- squared: projection; logistic, poisson, gamma, huber, squared_hinge, multinomial: Newton's method;
- absolute, quantile, hinge: an interior-point method, or linear programming where its gap is too wide;
- cauchy, sigmoid: Newton's method from several starts, which gives upper bounds;
- coefficients that must not be negative: refits of all subsets, of which those with permitted signs count.

The value of a set is ψ at a vector of float64 coefficients, evaluated in extended precision: where an answer is said to
be improved, there is a vector that improves it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.independent_fits import kinked_fits, kinked_program, slow_fit, smooth_fits, softmax_fits
from tests.support.independent_losses import kink_slopes, least_loss, loss_value
from tests.support.subset_problems import CLASSES, KINKED, MARGINS, NOT_CONVEX, RESIDUALS, Case, Double, Set

Extended = NDArray[np.longdouble]

TOLERANCE = 1e-6  # of the null loss: what a claim may miss

_EPS = float(np.finfo(np.float64).eps)
# What is left of a column outside the span of others, relative to its length: below the first it is rounding; below
# the second it may be taken for rounding, and its gain need not be found. Where little is left, sets are
# also refitted without it, as its coefficient may be too large for float64.
SPANNED, _DOUBTFUL = 1e-15, 1e-11
# What is left of a column whose last digits are rounded may still gain: below `SPANNED`, digits beyond extended
# precision say what is possible at most. Less than `_NOTHING_LEFT` is the rounding of extended precision.
_NOTHING_LEFT, _DIGITS = 1e-18, 60
_LITTLE = (SPANNED, 1e-13, _DOUBTFUL, 1e-9, 1e-6)
_UNEVEN = 1e-6  # weights far apart, relative to the largest


@dataclass(frozen=True)
class Refit:
    """The best fit that was found over a set.

    Attributes
    ----------
    psi : float
        ψ at x.
    x : ndarray of shape (d + 1, n_outputs)
        Coefficients of the features, then of the intercept.
    proved : bool
        Whether Newton's method or a duality gap says that there is no better one.
    least : float
        What ψ may be, with columns that nearly depend on others; of a fit that is not proved, the infimum of the loss.
    """

    psi: float
    x: Double
    proved: bool
    least: float = math.inf


class Oracle:
    """Values of sets of features, by refits that share no code with the library."""

    def __init__(self, problem: Case) -> None:
        self.case = problem
        n, self.d = problem.X.shape
        weight = np.ones(n) if problem.weight is None else problem.weight
        rows = weight > 0
        self.n_outputs = problem.n_outputs
        weight = weight[rows].astype(np.longdouble)
        self.s: Extended = weight / weight.sum()
        self.n = int(rows.sum())
        columns = problem.X[rows].astype(np.longdouble)
        if problem.intercept:
            columns = np.column_stack([columns, np.ones(self.n, np.longdouble)])
        self.columns = columns
        # A power of two for each column: no rounding, and squares stay in range.
        largest = np.max(abs(columns), axis=0, initial=0.0)
        self.unit = np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1))))
        offset = np.zeros((n, self.n_outputs)) if problem.offset is None else problem.offset.reshape(n, -1)
        self.offset = np.broadcast_to(offset, (n, self.n_outputs))[rows]
        self.target = problem.b[rows]
        if problem.loss in CLASSES:
            self.label = np.unique(problem.b, return_inverse=True)[1][rows]
        self.always = (self.d,) if problem.intercept else ()
        self.known: dict[Set, Refit] = {}
        self.programs: dict[Set, Refit] = {}
        self.scale = 1.0
        by_class = problem.loss in CLASSES
        self.infimum = 0.0 if by_class else float(self.s @ least_loss(problem.loss, self.target))
        null = self.value(())
        self.scale = max(null - self.infimum, 1e-300)
        self.known = {}
        self.null = self.value(())
        rounding = self._rounding_of_nothing()
        self.tolerance = TOLERANCE * self.scale + rounding
        self.is_null_perfect = rounding > TOLERANCE * self.scale
        self.scale = self.tolerance / TOLERANCE  # what amounts are measured by

    def _rounding_of_nothing(self) -> float:
        """The largest gain that counts as none, if the null loss is almost 0.

        Where features that are kept separate the classes, the null loss is as small as coefficients are large.
        """
        nothing = max(float(self.psi(np.zeros((self.d + 1, self.n_outputs)))) - self.infimum, 0.0)
        rounding = self.rounding(self.refits([()])[0].x) + (64 * _EPS) ** 2 * nothing
        unattained = self.case.loss in ("logistic", "poisson", "sigmoid", *CLASSES)
        floor = 1e-9 if unattained else 1e-14 if self.case.loss in MARGINS else 0.0
        return max(rounding, floor * nothing if self.scale <= floor * nothing else 0.0)

    # --- ψ at a point

    def margins(self, x: Double) -> Extended:
        """Margins in extended precision at coefficients of shape (…, d + 1, n_outputs)."""
        return self.offset + np.einsum(
            "ij,...jk->...ik", self.columns, x[..., : self.columns.shape[1], :].astype(np.longdouble)
        )

    def psi(self, x: Double) -> Any:
        """ψ in extended precision."""
        return self._psi_of(self.margins(x))

    def _psi_of(self, z: Any) -> Any:
        name = self.case.loss
        with np.errstate(over="ignore", invalid="ignore"):
            if name == "multinomial":
                top = z.max(axis=-1, keepdims=True)
                own = np.take_along_axis(z, np.broadcast_to(self.label[:, None], (*z.shape[:-1], 1)), axis=-1)
                value = (np.log(np.exp(z - top).sum(axis=-1, keepdims=True)) + top - own)[..., 0]
            elif name == "one_vs_rest":
                value = np.logaddexp(0, -self._signs() * z).sum(axis=-1)
            else:
                value = loss_value(name, self.case.parameter, z[..., 0], self.target.astype(np.longdouble))
        psi = value @ self.s
        return np.where(np.isnan(psi), np.inf, psi)

    def _signs(self) -> Double:
        return np.where(self.label[:, None] == np.arange(self.n_outputs), 1.0, -1.0)

    def rounding(self, x: Double) -> float:
        """What rounding of the margins at x may do to ψ.

        Of a convex loss at z with an error of at most e, this is at most max(ℓ(z + e), ℓ(z − e)) − ℓ(z). It is far more
        than the slope at z says where e is large: so it is of margins whose terms are large and cancel.
        """
        size = abs(self.offset) + abs(self.columns) @ abs(x[: self.columns.shape[1]]).astype(np.longdouble)
        if self.case.loss in RESIDUALS:
            size = size + abs(self.target)[:, None]
        change = 8 * (2 + self.d) * _EPS * (size + 1e-300)
        if self.case.loss in CLASSES:
            return float(self.s @ change.sum(axis=1))
        z, change, b = self.margins(x)[:, 0], change[:, 0], self.target.astype(np.longdouble)
        with np.errstate(over="ignore", invalid="ignore"):
            value, below, above = (
                loss_value(self.case.loss, self.case.parameter, at, b) for at in (z, z - change, z + change)
            )
            terms = np.maximum(np.maximum(above, below) - value, 0.0)
            if self.case.loss == "sigmoid":  # not convex: it may fall by more than it may rise
                terms = np.maximum(above, below) - np.minimum(above, below)
            elif self.case.loss == "cauchy":
                terms = np.maximum(terms, value - np.where(abs(b - z) <= change, 0.0, np.minimum(above, below)))
        terms = np.where(np.isnan(terms), np.inf, terms)
        return float(self.s @ (terms + 8 * _EPS * abs(value)))

    # --- ψ of sets

    def value(self, features: Iterable[int]) -> float:
        """The least ψ over these features and those that are always in the fit."""
        return self.values([tuple(features)])[0]

    def values(self, sets: Sequence[Iterable[int]]) -> list[float]:
        """The same for several sets."""
        return [fit.psi for fit in self.refits(sets)]

    def refits(self, sets: Sequence[Iterable[int]]) -> list[Refit]:
        """The best fit over each of the sets, with those features that are always in it."""
        whole = [tuple(sorted({*map(int, features), *self.case.keep})) for features in sets]
        signs = self.case.nonnegative
        if signs is None:
            self._know(whole)
            return [self.known[features] for features in whole]
        parts = {features: self._parts(features) for features in whole}
        self._know([part for some in parts.values() for part in some])
        out = []
        for features in whole:
            allowed = [self.known[part] for part in parts[features] if np.all(self.known[part].x[:-1, 0][signs] >= 0)]
            best = min(allowed, key=lambda fit: fit.psi)
            best = replace(best, least=min(fit.least for fit in allowed))
            out.append(self._with_linear_program(features, best) if self.case.loss in KINKED else best)
        return out

    def _with_linear_program(self, features: Set, best: Refit) -> Refit:
        """The better of a fit with permitted signs and that of a linear program.

        There may be several minimisers, with and without permitted signs. Where the two differ, what is possible is not
        known: then the bound is that without signs.
        """
        if features not in self.programs:
            self.programs[features] = self._by_linear_program(features)
        program = self.programs[features]
        least = min(program.psi, best.psi)
        if abs(program.psi - best.psi) > TOLERANCE * self.scale / 10:
            least = min(least, self.known[features].least)
        return replace(min(program, best, key=lambda fit: fit.psi), least=least)

    def _parts(self, features: Set) -> list[Set]:
        """All subsets that leave out features with a sign; and the one without any of them, which is allowed."""
        assert self.case.nonnegative is not None
        signed = [j for j in features if self.case.nonnegative[j]]
        free = [j for j in features if not self.case.nonnegative[j]]
        return [
            tuple(sorted((*free, *some)))
            for size in range(len(signed) + 1)
            for some in itertools.combinations(signed, size)
        ]

    def _know(self, sets: Sequence[Set]) -> None:
        todo = sorted({features for features in sets if features not in self.known}, key=lambda some: (len(some), some))
        if not todo:
            return
        whole: dict[Set, list[tuple[float, Refit]]] = {features: [] for features in todo}
        rounded = set[Set]()
        for spanned in reversed(_LITTLE):
            basis, factor, left = self._bases(todo, spanned)
            little = ((left > _NOTHING_LEFT) & (left <= SPANNED)).any(axis=1)
            rounded.update(todo[i] for i in np.flatnonzero(little))
            for features, fit in zip(todo, self._fitted(todo, basis, factor), strict=True):
                whole[features].append((spanned, fit))
            # Those in which a column was left out that is not spanned up to rounding.
            todo = [todo[i] for i in np.flatnonzero(((left > SPANNED) & (left <= spanned)).any(axis=1))]
            if not todo:
                break
        for features in rounded:
            basis = self._exact_basis(features)
            a, proved = self._minimised(basis)
            least = [float(self._psi_of(self.offset + basis[0] @ start[0])) for start in a]
            whole[features].append((0.0, Refit(math.inf, whole[features][0][1].x, bool(proved[0]), min(least))))
        for features, fits in whole.items():
            attained = [fit for spanned, fit in fits if spanned >= _DOUBTFUL]
            if len(attained) > 1:  # large coefficients that cancel may lose more by rounding than they gain
                attained.sort(key=lambda fit: fit.psi + self.rounding(fit.x))
            best = attained[0]
            # A fit that may have stopped early says only that ψ is at most so much.
            several = self.case.loss in CLASSES  # of nearly dependent columns their fits are not exact
            uneven = several and float(self.s.min()) < _UNEVEN * float(self.s.max())  # nor with such weights
            sure = [fit.proved and not uneven and not (several and spanned < _LITTLE[-2]) for spanned, fit in fits]
            least = min(fit.least if known else self.infimum for known, (_, fit) in zip(sure, fits, strict=True))
            self.known[features] = replace(best, least=least)
            for j in features:  # one more feature cannot raise ψ: a fit that does has stopped early
                fewer = self.known.get(tuple(i for i in features if i != j))
                if fewer is not None and fewer.psi < self.known[features].psi:
                    least = self.infimum if fewer.psi < best.psi - TOLERANCE * self.scale else least
                    self.known[features] = replace(fewer, least=min(least, fewer.psi))

    def _places(self, sets: Sequence[Set]) -> NDArray[np.intp]:
        """Columns of each set, the intercept first; −1 where there are fewer."""
        most = max(len(features) for features in sets) + len(self.always)
        places = np.full((len(sets), most), -1)
        for row, features in zip(places, sets, strict=True):
            row[: len(self.always) + len(features)] = (*self.always, *features)
        return places

    def _bases(self, sets: Sequence[Set], spanned: float) -> tuple[Extended, Extended, Extended]:
        """Orthonormal bases Q of the columns in the inner product of the weights, R with A = QR, and what is left.

        A column with less than `spanned` of its length outside the span of those before it is left out: Q has zeros.
        """
        places = self._places(sets)
        columns = np.concatenate(
            [self.columns / self.unit[: self.columns.shape[1]], np.zeros((self.n, 1), np.longdouble)], axis=1
        )
        A = columns[:, places].transpose(1, 0, 2)
        S, n, p = A.shape
        Q, R = np.zeros((S, n, p), np.longdouble), np.zeros((S, p, p), np.longdouble)
        left = np.ones((S, p), np.longdouble)
        for j in range(p):
            v = A[:, :, j].copy()
            length = np.sqrt((self.s * v * v).sum(axis=1))
            for _ in range(2 if j else 0):
                r = np.einsum("snj,sn->sj", Q[:, :, :j], self.s * v)
                v -= np.einsum("snj,sj->sn", Q[:, :, :j], r)
                R[:, :j, j] += r
            rest = np.sqrt((self.s * v * v).sum(axis=1))
            left[:, j] = np.where(length > 0, rest / np.where(length > 0, length, 1), 0)
            inside = left[:, j] > spanned
            R[:, j, j] = np.where(inside, rest, 0)
            Q[:, :, j] = np.where(inside[:, None], v / np.where(inside, rest, 1)[:, None], 0)
        return Q, R, left

    def _exact_basis(self, features: Set) -> Extended:
        """An orthonormal basis of the columns of one set, of shape (1, n, p), by Gram-Schmidt with many digits."""
        with localcontext() as context:
            context.prec, context.Emin, context.Emax = _DIGITS, MIN_EMIN, MAX_EMAX
            places = [*self.always, *features]
            columns = np.asarray(self.columns[:, places] / self.unit[places], np.float64)
            s = [Decimal(float(share)) for share in self.s]
            basis: list[list[Decimal]] = []
            for column in columns.T:
                v = [Decimal(float(value)) for value in column]
                length = _length(s, v)
                for q in basis * 2:
                    along = sum((a * b * c for a, b, c in zip(s, q, v, strict=True)), Decimal(0))
                    v = [value - along * other for value, other in zip(v, q, strict=True)]
                rest = _length(s, v)
                if rest > length.scaleb(-_DIGITS // 2):
                    basis.append([value / rest for value in v])
        Q = np.zeros((1, self.n, len(places)), np.longdouble)
        for place, q in enumerate(basis):
            Q[0, :, place] = [np.longdouble(str(value)) for value in q]
        return Q

    def _fitted(self, sets: Sequence[Set], Q: Extended, R: Extended) -> list[Refit]:
        """Fits in the bases, as vectors of float64 coefficients, with ψ there."""
        if Q.shape[2] == 0:
            x = np.zeros((self.d + 1, self.n_outputs))
            psi = float(self.psi(x))
            return [Refit(psi, x, True, psi)] * len(sets)
        a, proved = self._minimised(Q)
        best: list[Refit] | None = None
        for start in a:
            x = self._coefficients(sets, R, start)
            psi = np.asarray(self.psi(x), np.float64)
            # Rounding of large coefficients that cancel may raise ψ above that of the basis, or not so much.
            in_basis = np.asarray(self._psi_of(self.offset + np.einsum("snp,spk->snk", Q, start)), np.float64)
            least = np.where(np.isfinite(in_basis), np.minimum(in_basis, psi), psi)
            fits = [Refit(*fit) for fit in zip(psi.tolist(), x, map(bool, proved), least.tolist(), strict=True)]
            if best is not None:
                fits = [
                    replace(min(pair, key=lambda fit: fit.psi), least=min(fit.least for fit in pair))
                    for pair in zip(best, fits, strict=True)
                ]
            best = fits
        assert best is not None
        return best

    def _coefficients(self, sets: Sequence[Set], R: Extended, a: Any) -> Double:
        """x with Rx = a, each coefficient rounded before those that depend on it: the intercept comes last."""
        places, (S, p, n_outputs) = self._places(sets), a.shape
        x = np.zeros((S, self.d + 2, n_outputs))
        out = np.zeros((S, p, n_outputs))
        unit = np.concatenate([self.unit, np.ones(2, np.longdouble)])[: self.d + 1]
        for j in reversed(range(p)):
            rest = a[:, j] - (R[:, j, j + 1 :, None] * out[:, j + 1 :]).sum(axis=1)
            pivot = R[:, j, j]
            scaled = np.where(pivot[:, None] > 0, rest / np.where(pivot > 0, pivot, 1)[:, None], 0)
            size = unit[places[:, j]][:, None]
            rounded = (scaled / size).astype(np.float64)
            rounded = np.where(np.isfinite(rounded), rounded, 0.0)
            out[:, j] = rounded * size
            x[np.arange(S), places[:, j]] = rounded
        return x[:, : self.d + 1]

    def _minimised(self, Q: Extended) -> tuple[list[Any], NDArray[np.bool_]]:
        """Coordinates of minimisers in the bases, from one or several starts, and which are proved to be."""
        name, S = self.case.loss, Q.shape[0]
        if name == "squared":
            r = self.target - self.offset[:, 0].astype(np.longdouble)
            a = np.einsum("snp,n->sp", Q, self.s * r)
            a += np.einsum("snp,sn->sp", Q, self.s * (r - np.einsum("snp,sp->sn", Q, a)))
            return [a[:, :, None]], np.ones(S, bool)
        basis, s, offset = Q.astype(np.float64), self.s.astype(np.float64), self.offset[:, 0]
        if name == "multinomial":
            a, proved = softmax_fits(basis, s, self.offset, self.label, self.scale)
            return [a], proved
        if name == "one_vs_rest":
            fits = [
                smooth_fits(basis, s, self.offset[:, c], self._signs()[:, c], "logistic", 0.0, self.scale)
                for c in range(self.n_outputs)
            ]
            return [np.stack([a for a, _ in fits], axis=2)], np.all([sure for _, sure in fits], axis=0)
        if name in KINKED:
            a, proved = kinked_fits(
                basis, s, self.target - offset, *kink_slopes(name, self.case.parameter, self.target), self.scale
            )
            found = a.copy()
            for i in np.flatnonzero(~proved):
                found[i] = kinked_program(
                    basis[i], s, self.target - offset, *kink_slopes(name, self.case.parameter, self.target)
                )
            return [a[:, :, None], found[:, :, None]], proved
        if name in NOT_CONVEX:
            return self._from_several_starts(basis, s, offset), np.zeros(S, bool)
        a, proved = smooth_fits(basis, s, offset, self.target, name, self.case.parameter, self.scale)
        found = [a[:, :, None]]
        if not proved.all():
            again = a.copy()
            for i in np.flatnonzero(~proved):
                again[i], proved[i] = slow_fit(
                    basis[i], s, offset, self.target, name, self.case.parameter, self.scale, a[i]
                )
            found.append(again[:, :, None])
        return found, proved

    def _from_several_starts(self, Q: Double, s: Double, offset: Double) -> list[Any]:
        name, parameter = self.case.loss, self.case.parameter
        convex = "huber" if name == "cauchy" else "logistic"
        a, _ = smooth_fits(Q, s, offset, self.target, convex, parameter, self.scale, steps=40)
        size = np.median(abs(np.einsum("snp,sp->sn", Q, a)), axis=1)
        reach = 1.0 if name == "cauchy" else (10 / np.maximum(size, 1e-8))[:, None]
        return [
            smooth_fits(Q, s, offset, self.target, name, parameter, self.scale, start=start, steps=40)[0][:, :, None]
            for start in (np.zeros_like(a), a, reach * a)[: 2 if name == "cauchy" else 3]
        ]

    def _by_linear_program(self, features: Set) -> Refit:
        """A loss with kinks over features of which some must not be negative, by linear programming."""
        assert self.case.nonnegative is not None
        places = [*self.always, *features]
        A = np.asarray(self.columns[:, places] / self.unit[places], np.float64)
        signed = [j < self.d and bool(self.case.nonnegative[j]) for j in places]
        slopes = kink_slopes(self.case.loss, self.case.parameter, self.target)
        a = kinked_program(A, self.s.astype(np.float64), self.target - self.offset[:, 0], *slopes, signed)
        x = np.zeros((self.d + 1, 1))
        x[places, 0] = (a / self.unit[places]).astype(np.float64)
        psi = float(self.psi(x))
        return Refit(psi, x, True, psi)


def _length(s: list[Decimal], v: list[Decimal]) -> Decimal:
    """The length of a vector in the inner product of the weights."""
    return sum((share * value * value for share, value in zip(s, v, strict=True)), Decimal(0)).sqrt()
