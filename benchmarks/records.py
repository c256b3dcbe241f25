"""A fit with at most 20 features to sparse binary data of the size of health records.

    python -m benchmarks.records [--share 0.1] [--features 20] [--threads 2] [--out results/records.json]

At --share 1 there are 847,000 people × 359,000 codes with 3e8 stored entries: CSR, float32 ones, int32 indices, 2.4 GB.
A smaller share has fewer people and as many codes. Half of the codes of a person come from a specialty of his, the
others from all codes; frequencies fall as a power of the rank, from two fifths of all people to a few, and the number
of codes of a person has a gamma distribution. The outcome is drawn from a logistic model of 40 codes.

`SparseClassifier(n_features=20)` with all other settings as they come runs in a process of its own: seconds and
processor seconds of the fit, and the peak memory of the process less what it took before the fit. Another process
counts full passes over X and the bytes of X that a fit reads (`--no-counts` leaves it out).

Bars: 60 s with two threads, 16 GB for the whole process, 60 times the bytes of X.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

PEOPLE, CODES, PER_PERSON = 847_000, 359_000, 354
SPECIALTIES = 50
SHIFT, POWER = 20.0, 0.9  # of ranks: frequencies fall as (rank + SHIFT)^-POWER
DRAWS = 1.1  # for each entry: codes drawn twice count once
ACTIVE = 40  # codes that decide the outcome
CASES = 0.15  # of the people, roughly
PIECE = 8192  # people drawn at a time
MOST_SECONDS, MOST_MEMORY, MOST_BYTES = 60.0, 16e9, 60.0


def generate(people: int, codes: int, per_person: float, seed: int = 0) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Return X of float32 ones and the outcomes ±1."""
    rng = np.random.default_rng(seed)
    specialty = rng.integers(0, SPECIALTIES, people)
    active = np.unique(np.geomspace(3, max(0.02 * codes, 4), ACTIVE).astype(int))
    truth = np.zeros(codes)
    truth[active] = rng.choice([-1.0, 1.0], active.size) * rng.uniform(0.4, 1.2, active.size)
    draws = np.maximum(rng.gamma(1.5, DRAWS * per_person / 1.5, people), 1).astype(np.int64)
    indptr, risk, pieces = np.zeros(people + 1, np.int64), np.empty(people), list[np.ndarray]()
    for begin in range(0, people, PIECE):
        end = min(people, begin + PIECE)
        person = np.repeat(np.arange(end - begin), draws[begin:end])
        own = rng.random(person.size) < 0.5
        rank = _ranks(rng.random(person.size), np.where(own, codes // SPECIALTIES, codes))
        code = np.where(own, rank * SPECIALTIES + specialty[begin:end][person], rank)
        place = np.sort(person * codes + np.minimum(code, codes - 1))
        person, code = np.divmod(place[np.append(True, place[1:] != place[:-1])], codes)
        indptr[begin + 1 : end + 1] = np.bincount(person, minlength=end - begin)
        risk[begin:end] = np.bincount(person, truth[code], end - begin)
        pieces.append(code.astype(np.int32))
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], np.int32)
    for k, begin in enumerate(range(0, people, PIECE)):
        indices[indptr[begin] : indptr[min(people, begin + PIECE)]] = pieces[k]
        pieces[k] = indices[:0]
    X = scipy.sparse.csr_array((people, codes), dtype=np.float32)
    X.data, X.indices, X.indptr = np.ones(indices.size, np.float32), indices, indptr  # the constructor would copy them
    return X, np.where(risk - np.quantile(risk, 1 - CASES) + rng.logistic(size=people) > 0, 1.0, -1.0)


def _ranks(uniform: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return ranks below `count` whose frequencies fall as (rank + SHIFT)^-POWER."""
    low, high = SHIFT ** (1 - POWER), (count + SHIFT) ** (1 - POWER)
    return np.asarray((low + uniform * (high - low)) ** (1 / (1 - POWER)) - SHIFT).astype(np.int64)


def memory(name: str) -> float:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def fit(X: Any, y: np.ndarray, features: int) -> Any:
    """Return the fitted estimator."""
    from levelprox import SparseClassifier

    return SparseClassifier(n_features=features).fit(X, y)


def measure(X: Any, y: np.ndarray, features: int) -> dict[str, Any]:
    """Return time and memory of a fit in this process."""
    size = float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes)
    fit(X[:200], y[:200], 1)  # imports
    before = memory("VmRSS")
    began, processor = time.perf_counter(), time.process_time()
    found = fit(X, y, features)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    peak = memory("VmHWM")
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "peak": peak,
        "above_data": peak - before,
        "data": size,
        "features": np.flatnonzero(found.coef_).tolist(),
        "loss": float(np.mean(np.logaddexp(0.0, -y * found.decision_function(X)))),
        "message": found.message_,
    }


def count(X: Any, y: np.ndarray, features: int) -> dict[str, float]:
    """Return full passes over X, and bytes of X read over its size."""
    from benchmarks.engine import counted
    from levelprox.designs import as_design

    with counted(as_design(X)) as counter:
        fit(X, y, features)
    return {"passes": counter.passes, "bytes": counter.bytes / counter.design.nbytes}


def report(row: dict[str, Any]) -> list[str]:
    """Print the figures of a fit, and return the bars that it misses."""
    print(
        f"{row['people']} x {row['codes']}, {row['entries']:.2e} entries, {row['data'] / 1e9:.2f} GB: "
        f"{row['seconds']:.1f} s, {row['processor_seconds']:.1f} s of processor time, peak {row['peak'] / 1e9:.2f} GB, "
        f"{row['above_data'] / 1e9:.2f} GB above the data; loss {row['loss']:.6f}"
    )
    if "passes" in row:
        print(f"{row['passes']} full passes, {row['bytes']:.1f} times the bytes of X")
    print(row["message"])
    bars = (("seconds", MOST_SECONDS), ("peak", MOST_MEMORY), ("bytes", MOST_BYTES))
    return [f"{name}: {row[name]:.3g} (limit {limit:.3g})" for name, limit in bars if row.get(name, 0.0) > limit]


def main() -> int:
    """Generate, measure, count, and compare with the bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--share", type=float, default=0.1, help="of 847,000 people")
    parser.add_argument("--codes", type=int, default=CODES)
    parser.add_argument("--per-person", type=float, default=PER_PERSON)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-counts", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results/records.json"))
    parser.add_argument("--only", choices=["measure", "count"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    people = max(int(PEOPLE * options.share), 1)
    if options.only:
        X, y = generate(people, options.codes, options.per_person, options.seed)
        work = {"measure": measure, "count": count}[options.only]
        size = {"people": people, "codes": options.codes, "entries": int(X.nnz)}
        print(json.dumps(size | work(X, y, options.features)))
        return 0
    row: dict[str, Any] = {}
    for only in ("measure",) if options.no_counts else ("measure", "count"):
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
        command = [sys.executable, "-m", "benchmarks.records", *sys.argv[1:], "--only", only]
        out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        row |= json.loads(out.splitlines()[-1])
    missed = report(row)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"share": options.share, "threads": options.threads, **row}, indent=1))
    print("missed: " + ", ".join(missed) if missed else "all bars are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
