"""Checkpoints: runs cut short and resumed, and states that version 0.1 has written.

`python -m experiments.corpus.checkpoint_cases FOLDER` writes a state of each run that is cut short, to be resumed by
later versions. Those of 0.1 are in tests/fixtures/v1 (`*.state`).
"""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from experiments.corpus.case import CONSTRAINTS, LOSSES, Case, samples
from experiments.corpus.describe import Told, described, file_hash
from experiments.corpus.file_cases import FIXTURES
from levelprox import (
    Checkpoint,
    LinearModel,
    MultinomialModel,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    best_subset,
    path,
    solve,
    subset_path,
)

#: A run: called with the options of a checkpoint and with limits.
Run = Callable[..., Any]


def _model(loss: str, fit_intercept: bool = True) -> Any:
    data = samples(seed=13)
    return LinearModel(data.X, getattr(data, LOSSES[loss]), loss, fit_intercept=fit_intercept)


def _solve(loss: str, **options: Any) -> Any:
    model = _model(loss, fit_intercept=options.get("subsolver") != "svrg")  # svrg samples rows of X itself
    return solve(Problem(model, *CONSTRAINTS["mcp"]), random_state=0, **options)


def _solve_classes(**options: Any) -> Any:
    data = samples(seed=13)
    return solve(Problem(MultinomialModel(data.X, data.three), *CONSTRAINTS["mcp"]), random_state=0, **options)


def _subset(loss: str, **options: Any) -> Any:
    return best_subset(_model(loss), 4, **options)


def _path(**options: Any) -> Any:
    return path(Problem(_model("logistic"), *CONSTRAINTS["mcp"]), [1.5, 2.5, 3.5], **options)


def _subset_path(**options: Any) -> Any:
    return subset_path(_model("logistic"), [1, 2, 4], **options)


def _classifier(**options: Any) -> Any:
    data = samples(seed=13)
    kind = SparseClassifierCV if "cv" in options else SparseClassifier
    return kind(random_state=0, **options).fit(data.X, data.two)


def _regressor(**options: Any) -> Any:
    data = samples(seed=13)
    return SparseRegressor(level=3.5, random_state=0, **options).fit(data.X, data.z)


def _when_swapping(record: Any) -> bool:
    return bool(record.phase == "exchanges")


#: Runs by name, with the limits that cut them short.
RUNS: dict[str, tuple[Run, dict[str, Any]]] = {
    "solve squared": (partial(_solve, "squared"), {"max_iter": 1}),
    "solve logistic": (partial(_solve, "logistic"), {"max_iter": 1}),
    "solve hinge": (partial(_solve, "hinge"), {"max_iter": 2}),
    "solve cauchy": (partial(_solve, "cauchy"), {"max_iter": 1}),
    "solve svrg": (partial(_solve, "logistic", subsolver="svrg", tol=1e-3), {"max_iter": 2}),
    "solve harmonic": (partial(_solve, "logistic", levels="harmonic", tol=1e-3), {"max_iter": 3}),
    "solve classes": (_solve_classes, {"max_iter": 1}),
    "subset squared": (partial(_subset, "squared"), {"max_iter": 0}),
    "subset logistic": (partial(_subset, "logistic"), {"max_iter": 0}),
    "subset hinge": (partial(_subset, "hinge"), {"max_iter": 0}),
    "subset cauchy": (partial(_subset, "cauchy"), {"max_iter": 0}),
    "subset-path logistic": (_subset_path, {"max_iter": 0}),
    "path logistic": (_path, {}),
    "classifier k": (partial(_classifier, n_features=4), {"max_iter": 1}),
    "classifier level": (partial(_classifier, level=3.5), {"max_iter": 1}),
    "classifier-cv": (partial(_classifier, n_features=[2, 4], cv=2), {"callback": _when_swapping}),
    "regressor level": (_regressor, {"max_iter": 1}),
}


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for name, (run, limits) in RUNS.items():
        yield Case(f"checkpoint/{name}", partial(_resumed, run, limits))
    yield Case("checkpoint/file", partial(_bytes, *RUNS["solve logistic"]))
    yield Case("checkpoint/every step", partial(_every_step, RUNS["solve logistic"][0]))
    yield Case("checkpoint/there already", _there_already)
    yield Case("checkpoint/another run", _another_run)
    for state in sorted(FIXTURES.glob("v*/*.state")):
        name = state.stem.replace("_", " ")
        yield Case(f"old-checkpoint/{state.parent.name}/{name}", partial(_old, state, RUNS[name][0]))


def _cut_short(run: Run, limits: dict[str, Any], state: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(checkpoint=state, **limits)


def _resumed(run: Run, limits: dict[str, Any], folder: Path) -> Told:
    """Cut a run short, resume it, and compare with one in a single piece."""
    state = folder / "run.state"
    stopped = described(_cut_short(run, limits, state))
    found, whole = run(checkpoint=state, resume=True), described(run())
    again = described(found)
    equal = again["x"] == whole["x"] and again.get("loss") == whole.get("loss") and again["status"] == whole["status"]
    return Told(found, words={"status before": stopped["status"]}, counts={"same as in one piece": int(equal)})


def _bytes(run: Run, limits: dict[str, Any], folder: Path) -> Told:
    _cut_short(run, limits, folder / "run.state")
    return Told(hashes={"file": file_hash(folder / "run.state")})


def _every_step(run: Run, folder: Path) -> Any:
    return run(checkpoint=Checkpoint(folder / "run.state", every=0))


def _there_already(folder: Path) -> Any:
    _solve("squared", checkpoint=folder / "run.state")
    return _solve("squared", checkpoint=folder / "run.state")


def _another_run(folder: Path) -> Any:
    _solve("squared", checkpoint=folder / "run.state")
    return _solve("squared", checkpoint=folder / "run.state", resume=True, tol=1e-3)


def _old(state: Path, run: Run, folder: Path) -> Any:
    """Resume a state that an earlier version has written, on a copy of it."""
    copied = folder / "run.state"
    shutil.copyfile(state, copied)
    return run(checkpoint=copied, resume=True)


def main(folder: Path) -> None:
    """Write a state of each run that is cut short."""
    for name, (run, limits) in RUNS.items():
        state = folder / f"{name.replace(' ', '_')}.state"
        if limits and not state.exists():
            _cut_short(run, limits, state)
            state.with_name(f"{state.name}.previous").unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
