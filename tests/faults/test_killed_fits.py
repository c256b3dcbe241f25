"""kill -9 at random moments: resumed fits end with the same bits, in fewer steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.long_runs import LONG

#: Twenty in all, or a hundred of each.
TIMES = {"solve": 11, "best_subset": 4, "path": 3, "cv": 2}
if LONG:
    TIMES = dict.fromkeys(TIMES, 100)


@pytest.mark.parametrize("kind", TIMES)
def test_a_fit_that_is_killed_goes_on_to_the_same_end(tmp_path, kind):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.support.killed_fits", str(TIMES[kind]), "0", kind, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, env=env)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    print(kind, told)
    assert told["same"] == told["times"] == TIMES[kind]
    assert told["after a state"] >= 0.8 * TIMES[kind]
    assert told["fewer steps"] >= told["after a state"]
