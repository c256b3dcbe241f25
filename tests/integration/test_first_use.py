"""First calls and typical mistakes (benchmarks/first_use): each does what is written there."""

import pytest

from benchmarks.first_use import CASES, run


def test_there_are_at_least_fifty():
    assert len(CASES) >= 50 and len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_first_use(case):
    if not case.can_run():
        pytest.skip(f"needs {', '.join(case.needs)}")
    done = run(case)
    assert not done.wrong, f"{done.wrong}\n{done.text}"
