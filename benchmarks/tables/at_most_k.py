"""Loss and time at equal k: the support of each program, refitted with the intercept by the judge."""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.judge import refit
from benchmarks.measurements import Row
from benchmarks.processes import Answer, Ask
from benchmarks.session import Judge, Session

NAME = "at most k"
DATA = (
    "generated-wide",
    "a9a",
    "w8a",
    "gas",
    "RELATHE",
    "we8there",
    "reuters21578:earn",
    "reuters21578:acq",
    "reuters21578:crude",
    "riboflavin",
    "ALLAML",
    "news20",
)
QUICK = ("riboflavin", "ALLAML", "RELATHE")
STAND_INS = ("generated-dense", "generated-squared")
FEATURES = (5, 10, 20)
PEERS = (
    "levelprox best_subset",
    "abess k",
    "abess 1..k",
    "l0learn",
    "l0learn swaps",
    "skscope",
    "omp",
    "skglm cut to k",
)


def measure(session: Session, name: str) -> None:
    """All competitors on one data set."""
    data = session.data(name)
    features = FEATURES[:2] if session.quick else FEATURES
    asks: dict[str, Ask] = {f"k={k}": {"k": k, "intercept": True} for k in features}
    for peer in PEERS:
        session.measure(NAME, data, peer, asks, judged_support(data))


def judged_support(data: Dataset) -> Judge:
    """Return a judge of supports: coefficients are not used, and more than k of them are an error."""

    def judged(ask: Ask, answer: Answer) -> Row:
        d = data.X.shape[1]
        assert answer.coefficients is not None
        if answer.coefficients.shape != (d + 1,) or not np.all(np.isfinite(answer.coefficients)):
            raise ValueError("not a finite vector with a coefficient for each feature and the intercept")
        support = np.flatnonzero(answer.coefficients[:d])
        if support.size > ask["k"]:
            raise ValueError(f"{support.size} features, at most {ask['k']} allowed")
        return {"loss": refit(data.X, data.b, data.loss, support), "nonzeros": int(support.size)}

    return judged
