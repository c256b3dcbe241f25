"""How many of the cases of a parametrised test belong to `make test`; all of them belong to `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import pytest

#: Long versions of randomised tests: `make test-long`.
LONG = bool(os.environ.get("LEVELPROX_LONG_TESTS"))


def spread(count: int, values: Collection[Any]) -> list[Any]:
    """Return all values, for ``pytest.mark.parametrize``; `count` of them, evenly spread, belong to `make test`."""
    values = list(values)
    chosen = {round(i * (len(values) - 1) / max(count - 1, 1)) for i in range(count)}
    return [value if i in chosen else pytest.param(value, marks=pytest.mark.extended) for i, value in enumerate(values)]


def only(chosen: Collection[Any], values: Collection[Any]) -> list[Any]:
    """Return all values, for ``pytest.mark.parametrize``; those that are `chosen` belong to `make test`."""
    values = list(values)
    missing = [value for value in chosen if value not in values]
    if missing:
        raise ValueError(f"not among the values: {missing}")
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.extended) for value in values]
