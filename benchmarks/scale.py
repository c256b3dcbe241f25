"""Level fits on a cluster: rounds, and bytes that cross the network, as the number of samples grows.

    python -m benchmarks.scale [--most 1e6] [--features 100] [--chunks 32] [--workers 2] [--out results/scale.json]

Logistic loss, MCP, level (20 + 1/2)·cap, an intercept, tol = 1e-6, both starts. Samples are made inside the chunks,
each from its own seed: X standard normal float32, of which 40 features decide, by slopes that fall, so that the level
has something to leave out at every n. The number of chunks is fixed. A local cluster of two processes with one thread
each holds them: at n = 1e7 the 100 features take 4 GB in all.

Rounds are all graphs of a fit, the first pass for statistics included. Bytes are queries sent, once for each round for
any number of workers, and sums received by the client; "packed" is the size of these sums as pickles.

Bars: at most 80 rounds, and neither rounds nor bytes at any n more than 25 % above those at the smallest.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from levelprox import Problem, solve
from levelprox.backends.dask import DaskSource
from levelprox.backends.partition import Form
from levelprox.backends.partitioned import PartitionedModel
from levelprox.constraints import MCP
from levelprox.losses import Logistic

FEATURES = 20  # that the level admits
DECIDING = 2 * FEATURES
STARTS = ("direct", "auto")
MOST_ROUNDS, MOST_GROWTH = 80, 1.25


class Counted(DaskSource):
    """A data source that counts rounds and the size of their results."""

    rounds = 0
    packed = 0

    def total(self, work: Any) -> Any:
        """Count the round and its bytes."""
        answer = super().total(work)
        Counted.rounds += 1
        Counted.packed += len(pickle.dumps(answer))
        return answer


def chunk(seed: int, rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """X and targets of some samples."""
    rng = np.random.default_rng([seed, rows])
    X = rng.standard_normal((rows, features), np.float32)
    slopes = np.where(np.arange(DECIDING) % 2, -1.0, 1.0) * 0.95 ** np.arange(DECIDING)
    z = X[:, : 2 * DECIDING : 2].astype(np.float64) @ slopes + 0.3
    return X, np.where(z + rng.logistic(size=rows) > 0, 1.0, -1.0)


def samples(n: int, features: int, chunks: int) -> tuple[da.Array, da.Array]:
    """Return the same data in chunks that the workers generate."""
    sizes = np.diff(np.linspace(0, n, chunks + 1).astype(int)).tolist()
    pairs = [dask.delayed(chunk, pure=True, nout=2)(i, rows, features) for i, rows in enumerate(sizes)]
    X = [da.from_delayed(x, (rows, features), np.float32) for (x, _), rows in zip(pairs, sizes, strict=True)]
    y = [da.from_delayed(b, (rows,), np.float64) for (_, b), rows in zip(pairs, sizes, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def measured(client: Client, n: int, start: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one fit."""
    constraint = MCP.from_threshold(0.1)
    began = time.perf_counter()
    source = Counted.of(*samples(n, options.features, options.chunks), client=client)
    loss = Logistic()
    statistics = source.statistics(loss, True, False)
    read = time.perf_counter() - began
    assert statistics.count == n
    Counted.rounds = Counted.packed = 0
    began = time.perf_counter()
    model = PartitionedModel(source, Form(loss, True))
    result = solve(Problem(model, constraint, (FEATURES + 0.5) * constraint.cap), start=start)
    seconds = time.perf_counter() - began
    traffic = asdict(model.traffic)
    total = traffic["bytes_out"] + traffic["bytes_back"]
    return {
        "n": n,
        "start": start,
        "status": str(result.status),
        "kkt": result.kkt,
        "nonzero": result.certificate.n_nonzero,
        **traffic,
        "rounds": Counted.rounds + 1,  # and the pass for statistics
        "bytes": total,
        "bytes_per_round": total / traffic["rounds"],
        "packed": Counted.packed,
        "read_seconds": read,
        "seconds": seconds,
    }


def report(row: dict[str, Any]) -> None:
    """One line of the table."""
    print(
        f"n={row['n']:<9.0e} {row['start']:7} {row['status']:8} kkt={row['kkt']:.1e} nonzero={row['nonzero']:<3d} "
        f"rounds={row['rounds']:<3d} full={row['full_gradients']:<3d} out={row['bytes_out'] / 1e3:6.1f} kB "
        f"back={row['bytes_back'] / 1e3:7.1f} kB packed={row['packed'] / 1e3:7.1f} kB "
        f"a round={row['bytes_per_round'] / 1e3:5.2f} kB  made in {row['read_seconds']:.1f} s, fitted in "
        f"{row['seconds']:.1f} s",
        flush=True,
    )


def verdicts(rows: list[dict[str, Any]]) -> bool:
    """Each bar with its worst case; whether all are met."""
    worst = max(rows, key=lambda row: row["rounds"])
    met = worst["rounds"] <= MOST_ROUNDS
    print(f"rounds: worst {worst['rounds']} (limit {MOST_ROUNDS}), n = {worst['n']:.0e}, {worst['start']}")
    for key in ("rounds", "bytes"):
        for start in STARTS:
            of_start = [row for row in rows if row["start"] == start]
            growth = max(row[key] for row in of_start) / of_start[0][key]
            met = met and growth <= MOST_GROWTH
            print(
                f"{key} against n = {of_start[0]['n']:.0e}, {start}: at most {growth:.2f} times (limit {MOST_GROWTH})"
            )
    unsolved = [row for row in rows if row["status"] != "solved"]
    print(f"not solved to 1e-6: {len(unsolved)} of {len(rows)}")
    return met and not unsolved


def main() -> int:
    """Run all sizes, and compare them with the bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most", type=float, default=1e7, help="samples of the largest fit")
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/scale.json"))
    options = parser.parse_args()
    sizes = [10**k for k in range(4, 8) if 10**k <= options.most]
    rows: list[dict[str, Any]] = []
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
        ) as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        for n in sizes:
            for start in STARTS:
                rows.append(measured(client, n, start, options))
                report(rows[-1])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    settings = {key: value for key, value in vars(options).items() if key != "out"}
    options.out.write_text(json.dumps({**settings, "fits": rows}, indent=1), encoding="utf-8")
    return 0 if verdicts(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
