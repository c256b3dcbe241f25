"""Files, functions and stack depth of three small fits: `python -m experiments.walk [--files]`.

Each fit runs twice on 300 × 40 data. The first run loads modules and fills caches and is not counted. The second one is
traced by `sys.setprofile`, on all threads. Counted are the Python files of the package that run, the distinct functions
(lambdas and comprehensions included) and the largest number of frames of the package on one stack.
"""

from __future__ import annotations

import argparse
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import levelprox
from levelprox import LinearModel, Problem, SparseClassifier, constraints, solve

N_SAMPLES, N_FEATURES = 300, 40
PACKAGE = str(Path(levelprox.__file__).resolve().parent)

Fit = Callable[[], object]


@dataclass
class Walk:
    """What a traced fit executed.

    Attributes
    ----------
    calls : Counter of code to int
        Calls of each function of the package.
    depth : int
        Largest number of frames of the package on the stack of one thread.
    """

    calls: Counter[CodeType] = field(default_factory=Counter)
    depth: int = 0

    @property
    def files(self) -> Counter[str]:
        """Calls by file, relative to the package."""
        counts: Counter[str] = Counter()
        for code, calls in self.calls.items():
            counts[str(Path(code.co_filename).resolve().relative_to(PACKAGE))] += calls
        return counts

    @property
    def n_functions(self) -> int:
        """Number of distinct functions, modules and class bodies included where they are first imported."""
        return len(self.calls)


def trace(fit: Fit) -> Walk:
    """Run a fit and count what it executes of the package.

    Parameters
    ----------
    fit : callable
        A function without arguments.

    Returns
    -------
    Walk
    """
    walk, known = Walk(), {}  # known: whether a file is of the package

    def is_ours(code: CodeType) -> bool:
        name = code.co_filename
        if name not in known:
            known[name] = not name.startswith("<") and str(Path(name).resolve()).startswith(PACKAGE + "/")
        return known[name]

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not is_ours(frame.f_code):
            return
        walk.calls[frame.f_code] += 1
        depth, above = 0, frame
        while above is not None:
            depth += is_ours(above.f_code)
            above = above.f_back
        walk.depth = max(walk.depth, depth)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk


def fits() -> dict[str, Fit | str]:
    """Return the three fits by name; for one that cannot run, the reason."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    z = X[:, :8] @ np.linspace(2.0, 0.5, 8) + rng.logistic(size=N_SAMPLES)
    y = (z > 0).astype(int)

    def classifier(data: object) -> object:
        return SparseClassifier(n_features=8).fit(data, y)

    def level() -> object:
        return solve(Problem(LinearModel(X, z), constraints.MCP.from_threshold(0.5), 2.5))

    def dask() -> object:
        import dask.array as da

        return classifier(da.from_array(X, chunks=(N_SAMPLES // 3, -1)))

    return {
        "SparseClassifier(n_features=8).fit": lambda: classifier(X),
        "solve(Problem(LinearModel, MCP, 2.5))": level,
        "SparseClassifier(n_features=8).fit, Dask": dask if find_spec("dask") else "dask is not installed",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the three fits.

    Parameters
    ----------
    arguments : sequence of str, default=sys.argv[1:]

    Returns
    -------
    int
        0.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.walk", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", action="store_true", help="list the files of each fit with their calls")
    listed = parser.parse_args(arguments).files
    print(f"{'fit':42} files  functions  depth")
    for name, fit in fits().items():
        if isinstance(fit, str):
            print(f"{name:42} skipped: {fit}")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit()
            walk = trace(fit)
        print(f"{name:42} {len(walk.files):5}  {walk.n_functions:9}  {walk.depth:5}")
        for file, calls in walk.files.most_common() if listed else ():
            print(f"    {calls:8}  {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
