"""Claims of estimators on realistic tables are true, by enumeration with NumPy and SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.long_runs import LONG
from tests.support.realistic_claims import Verdict, _judge, fitted, judged, table

TOGETHER = 3  # tables of one test
PARTS = 1000 if LONG else 10


@pytest.mark.cpu_budget(20, "three tables, each with all of its sets refitted")
@pytest.mark.parametrize("part", range(PARTS))
def test_claims_hold_on_tables(part):
    verdicts = [judged(table(seed)) for seed in range(TOGETHER * part, TOGETHER * (part + 1))]
    assert not any(verdict.words for verdict in verdicts), [(v.table.seed, v.words) for v in verdicts if v.words]


def test_wrong_claims_are_found():
    one = next(one for one in map(table, range(100)) if one.loss == "squared" and one.cost is not None)
    honest = fitted(one)
    told = honest.certificate_
    chosen = np.flatnonzero(honest.coef_)
    lies = {
        "point": {"certificate_": replace(told, psi=0.9 * told.psi)},
        "high": {"certificate_": replace(told, multiplier=told.multiplier + told.psi)},
        "refit": {"coef_": np.where(np.arange(honest.coef_.size) == chosen[0], 0.5 * honest.coef_, honest.coef_)},
        "budget": {"coef_": np.ones_like(honest.coef_)},
    }
    for word, lie in lies.items():
        liar, verdict = fitted(one), Verdict(one)
        vars(liar).update(lie)
        _judge(one, liar, verdict)
        assert any(found.startswith(word) for found in verdict.words), word
