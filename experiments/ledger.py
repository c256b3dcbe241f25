"""A CSV file that is written row by row, so that a run that was killed can resume.

One row is what one contender chose on one problem. Where a contender is given again, its last row counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Choice:
    """What a contender chose on a problem, and what it is worth.

    Attributes
    ----------
    part, seed : str, int
        Which problem.
    contender : str
    loss : float
        The judge's; infinite where nothing was chosen for the reason in `note`.
    support : str
        The chosen features, apart by blanks.
    seconds : float
        Wall time, data in memory; compilation of a first call included.
    note : str
    """

    part: str
    seed: int
    contender: str
    loss: float
    support: str = ""
    seconds: float = 0.0
    note: str = ""

    @property
    def features(self) -> frozenset[int]:
        """The chosen features."""
        return frozenset(map(int, self.support.split()))

    @property
    def absent(self) -> bool:
        """Whether the contender is not installed."""
        return self.note.startswith(NOT_INSTALLED)


Key = tuple[str, int, str]


class Ledger:
    """The choices in a file, by problem and contender."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.choices: dict[Key, Choice] = {}
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                # A row that a kill cut short has no note, not even an empty one.
                self._keep(_choice(row) for row in csv.DictReader(file) if row["note"] is not None)
        self.rewrite()

    def __contains__(self, key: Key) -> bool:
        return key in self.choices and not self.choices[key].absent

    def forget(self, contender: str) -> None:
        """Remove all rows of a contender, so that it runs again."""
        self.choices = {key: choice for key, choice in self.choices.items() if choice.contender != contender}
        self.rewrite()

    def append(self, choices: Iterable[Choice]) -> None:
        """Add rows, at once on the disk."""
        new = list(choices)
        self._keep(new)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            _writer(file).writerows(map(asdict, new))

    def rewrite(self) -> None:
        """Write the file again: the header, and one row for each problem and contender."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".new")
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = _writer(file)
            writer.writeheader()
            writer.writerows(asdict(choice) for _, choice in sorted(self.choices.items()))
        aside.replace(self.path)

    def _keep(self, choices: Iterable[Choice]) -> None:
        self.choices.update({(c.part, c.seed, c.contender): c for c in choices})


def _writer(file: object) -> csv.DictWriter[str]:
    return csv.DictWriter(file, fieldnames=[field.name for field in fields(Choice)])  # type: ignore[arg-type]


def _choice(row: dict[str, str]) -> Choice:
    return Choice(
        row["part"],
        int(row["seed"]),
        row["contender"],
        float(row["loss"]),
        row["support"],
        float(row["seconds"]),
        row["note"],
    )
