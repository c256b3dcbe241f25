"""Folds: their identity, and errors and warnings for classes that they do not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.driver.run_identity import hashed
from levelprox.exceptions import InvalidInputError

Splits = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]

_REMEDY = "Use stratified folds, such as cv=StratifiedKFold(5, shuffle=True), or fewer of them"


def hashed_folds(splits: Splits) -> str:
    """By what folds are known again."""
    return hashed(np.concatenate([np.append(test, train.size) for train, test in splits]))


def rows_of(params: dict[str, Any], rows: NDArray[np.intp]) -> dict[str, Any]:
    """What is given for each sample, of some samples."""
    return {name: np.asarray(value)[rows] for name, value in params.items()}


def check_classes_of_folds(y: NDArray[Any], weight: NDArray[Any] | None, splits: Splits) -> None:
    """Raise where the training part of a fold has fewer than two classes, and name the fold.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Classes.
    weight : ndarray of shape (n,), optional
        Samples of weight 0 do not count.
    splits : sequence of (train, test)
    """
    for fold, (train, _) in enumerate(splits):
        present = np.unique(y[train] if weight is None else y[train][weight[train] > 0]).tolist()
        if len(present) < 2:
            only = f"only the class {present[0]!r}" if present else "no sample"
            raise InvalidInputError(
                f"cv: the training part of fold {fold} has {only}, and two classes are needed. {_REMEDY}"
            )


def missing_classes(y: NDArray[Any], splits: Splits) -> str:
    """Say which classes the training parts of folds do not have although their test parts do."""
    found = []
    for fold, (train, test) in enumerate(splits):
        missing = np.setdiff1d(y[test], y[train]).tolist()
        if missing:
            classes = ", ".join(map(repr, missing))
            found.append(f"fold {fold} has no sample of {'class' if len(missing) == 1 else 'classes'} {classes}")
    more = f" and {len(found) - 3} more folds alike" if len(found) > 3 else ""
    return f"the training part of {'; that of '.join(found[:3])}{more}"


def left_out_words(count: int, y: NDArray[Any], splits: Splits) -> str:
    """Say that so many held-out samples are not scored, in which folds and why."""
    samples = "1 held-out sample of such a class is" if count == 1 else f"{count} held-out samples of such classes are"
    return f"{missing_classes(y, splits)}. {samples} left out of the score. {_REMEDY}"
