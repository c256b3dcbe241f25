"""Fits that are killed at random moments and resumed.

`python -m tests.support.killed_fits TIMES SEED KIND DIRECTORY` prints one JSON object: the number of kills, of kills
after a first state was written and of runs that ended the same, and the steps of resumed runs against those of an
unbroken run.

A process of its own, with one thread: what it forks begins at once, and is killed as a whole process is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from levelprox import Checkpoint, LinearModel, Problem, SparseClassifierCV, best_subset, constraints, path, solve
from levelprox.driver.checkpoint import SavedState

RNG = np.random.default_rng(7)
X = RNG.standard_normal((120, 30))
SIGNAL = X[:, 3] - 2 * X[:, 7] + 0.5 * X[:, 9] + 0.5 * RNG.standard_normal(120)
SIGNS = np.where(SIGNAL > 0, 1.0, -1.0)
_BEGUN = 0.9  # of the kills: after a first state
PROBLEM = Problem(LinearModel(X, SIGNS, loss="logistic"), constraints.MCP.from_threshold(0.1), 3.5)


def fit_of(kind: str, **options) -> tuple:
    """One fit: what must be the same to the last bit."""
    if kind == "solve":
        found = solve(PROBLEM, subsolver="nesterov", **options)
        return found.x.tobytes(), found.psi, found.n_outer, str(found.certificate)
    if kind == "best_subset":
        found = best_subset(PROBLEM.objective, 4, **options)
        return found.x.tobytes(), found.psi, str(found.certificate)
    if kind == "path":
        found = path(PROBLEM, [0.5, 1.5, 2.5, 3.5], **options)
        return found.coefficients.todense().tobytes(), found.losses.tobytes(), str(found.certificates)
    model = SparseClassifierCV(n_features=[1, 2, 3], cv=3, **options).fit(X, SIGNS)
    return model.coef_.tobytes(), model.intercept_.tobytes(), str(model.certificate_), model.best_score_


def steps_and_end(kind: str, file: Path) -> tuple[int, tuple]:
    """The number of states that a new or resumed fit has saved, and its end."""
    steps: list[object] = []
    keep = SavedState.keep

    def counted(self: SavedState, state: object) -> None:
        if not self.idle:
            steps.append(state)
        keep(self, state)

    SavedState.keep = counted
    try:
        end = fit_of(kind, checkpoint=Checkpoint(file, 0), resume=True)
    finally:
        SavedState.keep = keep
    return len(steps), end


def killed_after(seconds: float, kind: str, file: Path, begun: bool) -> None:
    """Begin a fit in a process of its own, and kill it so many seconds later, or after its first state."""
    child = os.fork()
    if child == 0:
        try:
            fit_of(kind, checkpoint=Checkpoint(file, 0), resume=True)
        finally:
            os._exit(0)
    while begun and not _has_begun(file):
        time.sleep(0.0002)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main(times: int, seed: int, kind: str, directory: Path) -> dict[str, object]:
    warnings.filterwarnings("ignore", "the best n_features is", UserWarning)  # a small grid
    rng = np.random.default_rng(seed)
    steps, end = steps_and_end(kind, directory / "whole")
    assert end == fit_of(kind)
    first, last = _duration(kind, directory)
    kept = same = fewer = 0
    for i in range(times):
        file = directory / f"state{i}"
        begun = rng.random() < _BEGUN
        killed_after(float(rng.uniform(0, last - first if begun else first)), kind, file, begun)
        kept += _has_begun(file)
        steps_left, same_end = steps_and_end(kind, file)
        same += same_end == end
        fewer += steps_left < steps
        left = [one.name for one in directory.glob(f"*state{i}*")]
        assert not any(name.endswith(".lock") for name in left), left
        for name in left:
            (directory / name).unlink()
    return {"times": times, "after a state": kept, "same": same, "fewer steps": fewer, "steps": steps}


def _duration(kind: str, directory: Path) -> tuple[float, float]:
    """When the first state of a fit that keeps states has been written, and when the fit ends."""
    file, began, first = directory / "timed", time.monotonic(), 0.0
    child = os.fork()
    if child == 0:
        try:
            fit_of(kind, checkpoint=Checkpoint(file, 0))
        finally:
            os._exit(0)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        first = first or (time.monotonic() - began if _has_begun(file) else 0.0)
        time.sleep(0.0005)
    return first, time.monotonic() - began


def _has_begun(file: Path) -> bool:
    """Whether a state of something done is there: before that, there is the one of a run that has done nothing."""
    return file.with_name(file.name + ".previous").exists()


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module="sklearn|joblib")
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))))
