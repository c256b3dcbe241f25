"""A case, and what its call did."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from levelprox import (
    InvalidInputError,
)

Outcome = Literal["works", "warns", "raises"]


@dataclass(frozen=True)
class Case:
    """One call of a new user.

    Attributes
    ----------
    name : str
    call : callable
        Its result, or the error that it raises, is checked.
    outcome : {"works", "warns", "raises"}
    words : tuple of str
        What must be in the text: of the result, of the warnings or of the error.
    kind : type
        Of the error, or of the first warning.
    needs : tuple of str
        Packages without which the case is left out.
    """

    name: str
    call: Callable[[], Any]
    outcome: Outcome = "works"
    words: tuple[str, ...] = ()
    kind: type[BaseException] = InvalidInputError
    needs: tuple[str, ...] = ()

    def can_run(self) -> bool:
        """Return whether all packages are there."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)


@dataclass(frozen=True)
class Outturn:
    """What a case did.

    Attributes
    ----------
    outcome : str
        "works", "warns" or "raises".
    text : str
        Of the result, of the warnings or of the error.
    wrong : str
        In which way this is not what is expected; empty where it is.
    """

    outcome: str
    text: str
    wrong: str


def run(case: Case) -> Outturn:
    """Make the call and compare what it does with what is expected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = case.call(), None
        except Exception as raised:
            result, error = None, raised
    if error is not None:
        outcome, text, first = "raises", str(error), type(error)
    elif caught:
        outcome, text, first = "warns", " | ".join(str(one.message) for one in caught), caught[0].category
    else:
        outcome, text, first = "works", str(result), None
    wrong = []
    if outcome != case.outcome:
        wrong.append(f"{outcome}, not {case.outcome}")
    elif first is not None and not issubclass(first, case.kind):
        wrong.append(f"{first.__name__}, not {case.kind.__name__}")
    missing = [words for words in case.words if words not in text]
    if missing:
        wrong.append(f"does not say {', '.join(map(repr, missing))}")
    return Outturn(outcome, f"{first.__name__ + ': ' if first else ''}{text}", "; ".join(wrong))
