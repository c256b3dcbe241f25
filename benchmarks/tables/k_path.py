"""The best subsets of 1 to k features in one call: time, and loss at each k, against paths of other programs.

Single fits of levelprox at every fifth k are the reference for its own path: the largest one for time, each for the
loss at its k.
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.measurements import Row
from benchmarks.processes import Answer, Ask
from benchmarks.session import Judge, Session
from benchmarks.tables.at_most_k import judged_support

NAME = "k path"
DATA = ("generated-wide", "riboflavin", "gas", "a9a", "RELATHE", "ALLAML", "reuters21578:earn", "gisette_like")
QUICK = ("generated-wide", "riboflavin")
STAND_INS = ("generated-wide",)
LARGEST = (10, 30)
PATHS = ("levelprox subset_path", "abess path", "l0learn", "l0learn swaps")


def measure(session: Session, name: str) -> None:
    """Measure the paths, then single fits."""
    data = session.data(name)
    for largest in LARGEST[:1] if session.quick else LARGEST:
        ks = list(range(1, largest + 1))
        case = f"1..{largest}"
        for peer in PATHS:
            session.measure(NAME, data, peer, {case: {"ks": ks}}, _judged(session, data, case, peer), repeats=3)
        singles: dict[str, Ask] = {f"{case} k={k}": {"k": k, "intercept": True} for k in ks if k % 5 == 0}
        session.measure(NAME, data, "levelprox best_subset", singles, judged_support(data), repeats=3)


def _judged(session: Session, data: Dataset, case: str, peer: str) -> Judge:
    """Return a judge of whole paths: a row for every fifth k, and the loss at the largest k."""
    support_judge = judged_support(data)

    def judged(ask: Ask, answer: Answer) -> Row:
        assert answer.coefficients is not None
        points = answer.coefficients.reshape(len(ask["ks"]), data.X.shape[1] + 1)
        last: Row = {}
        for k, point in zip(ask["ks"], points, strict=True):
            last = support_judge({"k": k}, Answer("ok", coefficients=np.asarray(point)))
            if k % 5 == 0:
                row: Row = {"table": NAME, "data": data.name, "case": f"{case} k={k}", "peer": peer, "status": "ok"}
                session.measurements.add(row | last | {"version": answer.version})
        return last

    return judged
