"""Which score chooses a good number of features where fits of folds diverge: six rules, compared on test samples.

    python -m experiments.budget_rules [--splits 20] [--only one_strong,three,noise,breast_cancer,ALLAML,leukemia,colon]

Forward selection with the logistic loss (NumPy alone, as independent of levelprox as of its competitors), five
stratified folds, at most 5 features (30 for breast_cancer). A rule sees the margins of held-out samples of each
candidate and chooses one, of equal ones the smallest. The model of that size, fitted to all training samples, is judged
on test samples. ALLAML, leukemia and colon are read from the folder that LEVELPROX_DATA names, and left out without it.
The table is in docs/selection.md.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, train_test_split

Double = NDArray[np.float64]

GENES = ("ALLAML", "leukemia", "colon")
GENERATED = ("one_strong", "three", "noise")
_GRID = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
_SHORTLIST, _STEPS = 40, 60
_FAR = 700.0  # exp of it is finite


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Margins of one candidate on one fold.

    Attributes
    ----------
    z, b : ndarray of shape (m,)
        Margins and labels ±1 of held-out samples.
    null : float
        The margin of the model without features.
    size : float
        The mean distance of margins of training samples from `null`.
    n : int
        Training samples.
    """

    z: Double
    b: Double
    null: float
    size: float
    n: int


def losses(z: Double, b: Double) -> Double:
    """Return the logistic loss of each sample."""
    return np.logaddexp(0, -b * z)


def _limited(fold: HeldOut, least: float) -> float:
    p = 1 / (1 + np.exp(-np.clip(fold.b * fold.z, -_FAR, _FAR)))
    return float(np.mean(-np.log(np.clip(p, least, 1 - least))))


def _brier(fold: HeldOut) -> float:
    return float(np.mean((1 / (1 + np.exp(np.clip(fold.b * fold.z, -_FAR, _FAR)))) ** 2))


def _shrunken(folds: list[HeldOut]) -> list[float]:
    """Held-out losses with all margins shrunken towards the null model, by one factor for all folds."""
    factors = np.r_[0, np.geomspace(0.05, 40, 60)]
    parts = [(one.null, (one.z - one.null) / max(one.size, 1e-300), one.b) for one in folds]
    tried = [[float(losses(null + t * z, b).mean()) for null, z, b in parts] for t in factors]
    return min(tried, key=lambda scores: float(np.mean(scores)))


def _each(score: Callable[[HeldOut], float]) -> Callable[[list[HeldOut]], list[float]]:
    return lambda folds: [score(fold) for fold in folds]


#: Scores of the folds of a candidate; the lowest mean wins.
RULES: dict[str, Callable[[list[HeldOut]], list[float]]] = {
    "held-out loss": _each(lambda fold: float(losses(fold.z, fold.b).mean())),
    "limited to 1e-5": _each(lambda fold: _limited(fold, 1e-5)),
    "limited to 1/(n + 2)": _each(lambda fold: _limited(fold, 1 / (fold.n + 2))),
    "one shrinkage factor": _shrunken,
    "Brier score": _each(_brier),
    "accuracy": _each(lambda fold: float(np.mean((fold.z > 0) != (fold.b > 0)))),
}


class Forward:
    """Forward selection: of the features with the largest gradients, the one with the smallest loss comes next."""

    def __init__(self, X: Double, b: Double, most: int) -> None:
        self.center, deviation = X.mean(axis=0), X.std(axis=0)
        self.scale = np.where(deviation > 0, deviation, np.inf)
        Z, ones = (X - self.center) / self.scale, np.ones((b.size, 1))
        features: list[int] = []
        w, separated = _newton(ones, b, np.zeros(1))[0], False
        self.models = [(features, w)]
        for _ in range(most):
            if not separated:
                A = np.hstack([ones, Z[:, features]])
                slope = np.abs(Z.T @ (b / (1 + np.exp(np.clip(b * (A @ w), -_FAR, _FAR)))))
                slope[features] = -1
                best = np.inf
                for j in np.argsort(-slope)[:_SHORTLIST].tolist():
                    tried, loss = _newton(np.column_stack([A, Z[:, j]]), b, np.r_[w, 0.0])
                    if loss < best:
                        best, chosen, found = loss, j, tried
                features, w = [*features, chosen], found
                separated = bool(np.all(b * (np.hstack([ones, Z[:, features]]) @ w) > 0))
            self.models.append((features, w))

    def margins(self, k: int, X: Double) -> Double:
        """Of the model with k features."""
        features, w = self.models[k]
        return w[0] + ((X[:, features] - self.center[features]) / self.scale[features]) @ w[1:]


def _newton(A: Double, b: Double, w: Double) -> tuple[Double, float]:
    loss = float(losses(A @ w, b).mean())
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(np.clip(b * (A @ w), -_FAR, _FAR)))
        hessian = (A.T * (p * (1 - p))) @ A / b.size + 1e-14 * np.eye(w.size)
        step, length = np.linalg.solve(hessian, A.T @ (b * p) / b.size), 1.0
        new = float(losses(A @ (w + step), b).mean())
        while new >= loss and length > 1e-6:
            length /= 2
            new = float(losses(A @ (w + length * step), b).mean())
        if new >= loss:
            break
        w, gained, loss = w + length * step, loss - new, new
        if gained < 1e-13 * loss or loss < 1e-25:
            break
    return w, loss


def data(name: str, seed: int) -> tuple[Double, Double, int]:
    """X, labels ±1, and how many samples are for training."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return X, 2.0 * y - 1, 455
    if name in GENES:
        held = np.load(Path(os.environ["LEVELPROX_DATA"]) / "scikit_feature" / f"{name}.npz")
        y = held["y"]
        return held["X"].astype(np.float64), np.where(y == y.max(), 1.0, -1.0), int(0.75 * y.size)
    rng = np.random.default_rng(seed)
    X, noise = rng.standard_normal((300, 300)), rng.standard_normal(300)
    signal = {
        "one_strong": X[:, 5] + 0.3 * noise,
        "three": X[:, 5] + X[:, 6] - X[:, 7] + 0.5 * noise,
        "noise": noise,
    }[name]
    return X, np.where(signal > 0, 1.0, -1.0), 48


def chosen(name: str, seed: int) -> dict[str, tuple[int, float]]:
    """Of each rule the number of features, and the test accuracy of the model of that size."""
    X, b, n_train = data(name, seed)
    train, test = train_test_split(np.arange(b.size), train_size=n_train, random_state=seed, stratify=b)
    grid = [k for k in _GRID if k <= (30 if name == "breast_cancer" else 5)]
    candidates: list[list[HeldOut]] = [[] for _ in grid]
    for inside, outside in StratifiedKFold(5).split(X[train], b[train]):
        rows, held = train[inside], train[outside]
        path = Forward(X[rows], b[rows], max(grid))
        null = float(path.models[0][1][0])
        for k, folds in zip(grid, candidates, strict=True):
            size = float(np.mean(np.abs(path.margins(k, X[rows]) - null)))
            folds.append(HeldOut(path.margins(k, X[held]), b[held], null, size, rows.size))
    whole = Forward(X[train], b[train], max(grid))
    accuracy = [float(np.mean((whole.margins(k, X[test]) > 0) == (b[test] > 0))) for k in grid]
    found = {}
    for rule, scores in RULES.items():
        i = int(np.argmin([np.mean(scores(folds)) for folds in candidates]))
        found[rule] = grid[i], accuracy[i]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.budget_rules")
    parser.add_argument("--splits", type=int, default=20)
    known = (*GENERATED, "breast_cancer", *(GENES if "LEVELPROX_DATA" in os.environ else ()))
    parser.add_argument("--only", default=",".join(known))
    given = parser.parse_args(arguments)
    for name in given.only.split(","):
        splits = [chosen(name, seed) for seed in range(given.splits)]
        for rule in RULES:
            sizes, accuracies = zip(*(one[rule] for one in splits), strict=True)
            row = f"accuracy {np.mean(accuracies):.3f}, features {np.mean(sizes):.2f}, none {sizes.count(0)} times"
            print(f"{name:14} {rule:22} {row}", flush=True)


if __name__ == "__main__":
    main()
