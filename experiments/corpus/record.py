"""Run cases and collect their entries."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import levelprox
from experiments.corpus import (
    backend_cases,
    checkpoint_cases,
    command_cases,
    estimator_cases,
    file_cases,
    limit_cases,
    solve_cases,
    subset_cases,
    subsolver_cases,
)
from experiments.corpus.case import Case, SkipCase
from experiments.corpus.describe import Entry, described, masked

AREAS = (
    solve_cases,
    subsolver_cases,
    subset_cases,
    limit_cases,
    estimator_cases,
    backend_cases,
    file_cases,
    checkpoint_cases,
    command_cases,
)


def all_cases() -> dict[str, Case]:
    """Return every case by name.

    Returns
    -------
    dict of str to Case
    """
    found: dict[str, Case] = {}
    for area in AREAS:
        for one in area.cases():
            if one.name in found:
                raise ValueError(f"two cases are named {one.name!r}")
            found[one.name] = one
    return found


def recorded(case: Case) -> Entry:
    """Run a case.

    Parameters
    ----------
    case : Case

    Returns
    -------
    dict
        What it returned, its warnings (without those about deprecated names), or its error; `seconds` is processor
        time, that of child processes included.
    """
    began = _processor_seconds()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(record=True) as caught:
        folder = Path(name).resolve()
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        entry: Entry = {"error": None}
        try:
            entry |= described(case.run(folder))
        except SkipCase as reason:
            entry = {"skipped": str(reason)}
        except Exception as error:  # a case may be about one
            entry["error"] = f"{type(error).__name__}: {error}"
        entry["warnings"] = [f"{one.category.__name__}: {one.message}" for one in caught]
        entry = _masked(entry, folder)
    entry["seconds"] = round(_processor_seconds() - began, 3)
    return entry


def recording(pattern: str = "", jobs: int = 1, progress: bool = False) -> dict[str, Any]:
    """Run cases.

    Parameters
    ----------
    pattern : str, default=""
        A regular expression; cases are run where it is found in the name.
    jobs : int, default=1
        Processes.
    progress : bool, default=False
        Whether to print how many cases are done, after every 50.

    Returns
    -------
    dict
        `cases` by name, the versions they ran on, and `seconds`, the processor time of the cases.
    """
    names = [name for name in all_cases() if re.search(pattern, name)]
    cases = dict(zip(names, _entries(names, jobs, progress), strict=True))
    return {
        "format": 1,
        "versions": {
            "levelprox": levelprox.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
        "seconds": round(sum(entry["seconds"] for entry in cases.values()), 3),
        "cases": cases,
    }


def _entries(names: Sequence[str], jobs: int, progress: bool) -> list[Entry]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            return list(pool.map(_recorded_by_name, names, chunksize=4))
    found, cases = [], all_cases()
    for i, name in enumerate(names):
        if progress and i % 50 == 0:
            print(f"{i} of {len(names)}: {name}", flush=True)
        found.append(recorded(cases[name]))
    return found


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def _recorded_by_name(name: str) -> Entry:
    return recorded(all_cases()[name])


def _masked(value: Any, folder: Path) -> Any:
    """Mask every text of an entry."""
    if isinstance(value, str):
        return masked(value, folder)
    if isinstance(value, dict):
        return {name: _masked(one, folder) for name, one in value.items()}
    return [_masked(one, folder) for one in value] if isinstance(value, list) else value
