"""What budgets are called along an axis."""

from __future__ import annotations

from typing import Literal

from levelprox.exceptions import InvalidInputError

Axis = Literal["n_features", "level", "budget"]

_LABELS: dict[str, str] = {
    "n_features": "Number of features, at most",
    "level": "Level η",
    "budget": "Cost of the features, at most",
}


def check_axis(by: Axis) -> Axis:
    """`by`, which must be one of them."""
    if by not in _LABELS:
        raise InvalidInputError(f"by must be one of {', '.join(_LABELS)}, got {by!r}")
    return by


def label_of(by: Axis) -> str:
    """The label of an axis of budgets."""
    return _LABELS[by]
