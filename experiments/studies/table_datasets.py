"""Table 3: the paper's data sets, and the data loaded under their names.

All rows are counted, in quick runs too. Nonzeros are those of the training part, in per cent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from experiments import paper
from experiments.datasets import NAMES
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.studies.sets import argument, chosen, split

#: Of these the paper's counts are to be found; others say in what they differ.
SAME = ("original", "exact")
COUNTS = ("train", "test", "dimension", "nonzeros", "kind")


def count(dataset: Row) -> Iterator[Row]:
    """One row: what was loaded."""
    data = split(dataset)
    filled = data.X.nnz if hasattr(data.X, "nnz") else np.count_nonzero(data.X)
    yield {
        "set": dataset["name"],
        "label": data.source.label,
        "source": data.source.kind,
        "note": data.source.note,
        "train": data.X.shape[0],
        "test": data.X_test.shape[0],
        "dimension": data.X.shape[1],
        "nonzeros": 100 * float(filled) / (data.X.shape[0] * data.X.shape[1]),
        "kind": "C" if data.loss == "logistic" else "R",
    }


class TableDatasets(Study):
    """What stands behind the names."""

    name: ClassVar[str] = "table-datasets"
    title: ClassVar[str] = "Table 3: the data sets"

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
        return [
            Task(self.name, (name,), f"{__name__}:count", {"dataset": argument(name, scope) | {"rows": None}})
            for name in chosen(NAMES, scope)
        ]

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        header = ("set", "", "train", "test", "dimension", "nonzeros %", "type", "what it is")
        return Outcome(
            "Counted after loading, as in all other experiments except for the number of rows: quick runs use fewer.",
            "Table 3 lists six data sets of LIBSVM's site.",
            tables=[
                Table("The paper's sets, and those used here", header, [line for row in rows for line in both(row)])
            ],
            claims=[claim(row) for row in rows],
            notes=[
                "Stand-ins and generated data are labelled in every table and figure; docs/datasets.md says where "
                "the originals come from and how they are checked.",
            ],
        )


def printed(row: Row) -> tuple[str, ...]:
    """Return the counts as the paper prints them."""
    return (*(str(row[name]) for name in COUNTS[:3]), f"{row['nonzeros']:.2f}", row["kind"])


def of_paper(name: str) -> tuple[str, ...]:
    """Return the paper's row."""
    return printed(vars(paper.TABLE_3[name]))


def both(row: Row) -> Iterator[tuple[str, ...]]:
    """Return the line of the paper, then that of the data used here."""
    yield (row["set"], "paper", *of_paper(row["set"]), "")
    yield ("", "here", *printed(row), row["source"] if row["source"] in SAME else row["label"])


def claim(row: Row) -> Claim:
    """Whether the counts agree, where the data are said to be the paper's."""
    theirs, ours = of_paper(row["set"]), printed(row)
    what = row["source"] if row["source"] in SAME else row["label"]
    return Claim(
        f"{row['set']}: {theirs[0]}/{theirs[1]} x {theirs[2]}, {theirs[3]} % nonzeros",
        f"{ours[0]}/{ours[1]} x {ours[2]}, {ours[3]} % nonzeros ({what})",
        ours == theirs if row["source"] in SAME else None,
        row["note"],
    )
