"""A level fit of data on disk that are larger than the memory it may use.

    python -m benchmarks.larger_than_memory --folder DIR [--gb 20] [--tol 1e-4] [--start auto] [--cold] [--keep]

X is float32, n × d in one .npy file of so many gigabytes (10⁹ bytes), standard normal; targets are ±1 by a logistic
model of 20 features of size 1/2 to 1. Generated chunk by chunk, brought to the disk, and dropped from the page cache as
far as an ordinary user can (`posix_fadvise`). Then, in this order and in one process each:

- read: the whole file once from beginning to end, in chunks of the size that the fit uses, nothing done with them,
- fit: logistic loss, intercept, MCP, level (20 + ½) · cap, beginning with a cold cache; anonymous memory (RssAnon of
  /proc/self/status) is sampled every 10 ms, and passes over the file are counted from the bytes that were read,
- read again, cold: the disk may have had a better or a worse day.

Bars: RssAnon at most 4 GB, and seconds at most 1.5 × passes × the seconds of one read, the shorter of the two. What
`cached` says is which part of the file was in the page cache when the fit began and when it ended: with more memory
free than the file has, only the first pass is one from the disk. With --cold what was used is dropped from the page
cache all through the fit, so that every pass is one from the disk, as with a file far larger than memory.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

MOST_MEMORY = 4e9  # bytes of RssAnon
MOST_TIME = 1.5  # times passes × read
SUPPORT = 20
CHUNK = 2**27
DRAWN = 4096  # rows at a time
DROPPED = 4  # chunks at a time
SAMPLED = 0.01  # seconds


def generate(folder: Path, size: float, d: int) -> None:
    """X and y, and the rest of them to the disk."""
    n = int(size / (4 * d))
    rng = np.random.default_rng(9)
    truth = rng.choice(d, SUPPORT, replace=False)
    coefficients = (rng.uniform(0.5, 1.0, SUPPORT) * rng.choice([-1, 1], SUPPORT)).astype(np.float32)
    header = np.lib.format.header_data_from_array_1_0(np.empty((0, d), np.float32)) | {"shape": (n, d)}
    y = np.empty(n)
    with open(folder / "X.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for begin in range(0, n, DRAWN):
            X = rng.standard_normal((min(DRAWN, n - begin), d), dtype=np.float32)
            margin = X[:, truth] @ coefficients
            y[begin : begin + len(X)] = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
            file.write(X.data)
        file.flush()
        os.fsync(file.fileno())
    np.save(folder / "y.npy", y)
    np.save(folder / "truth.npy", np.sort(truth))


def drop(path: Path) -> None:
    """Out of the page cache."""
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def cached(path: Path) -> float:
    """Which part of a file is in the page cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        pages = np.zeros(-(-view.size // mmap.PAGESIZE), np.uint8)
        address = ctypes.c_void_p(int(view.__array_interface__["data"][0]))
        failed = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(view.size), ctypes.c_void_p(pages.ctypes.data))
        del view
    return float("nan") if failed else float(np.mean(pages & 1))


def read(path: Path) -> float:
    """Seconds of one read of the whole file, cold."""
    drop(path)
    buffer = memoryview(bytearray(CHUNK))
    began = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def anonymous() -> int:
    """RssAnon of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024


def fit(folder: Path, tol: float, start: str, memory: int, cold: bool) -> dict[str, Any]:
    """One fit, measured."""
    from levelprox import Problem, open_chunked, solve
    from levelprox.backends.out_of_core import FileSource
    from levelprox.backends.partition import Form
    from levelprox.backends.partitioned import PartitionedModel
    from levelprox.constraints import MCP
    from levelprox.losses import Logistic

    most, done = [0], threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLED):
            most[0] = max(most[0], anonymous())

    drop(folder / "X.npy")
    before = cached(folder / "X.npy")
    sampling = threading.Thread(target=sample)
    sampling.start()
    began = time.perf_counter()
    chunked = open_chunked(folder / "X.npy", folder / "y.npy", chunk_bytes=CHUNK)

    def forget(done: int, n: int, what: str) -> None:
        if done % DROPPED == 0 or done == n:
            drop(folder / "X.npy")

    source = FileSource(chunked, memory=memory, progress=forget if cold else None)
    constraint = MCP(2.0, 0.25)
    model = PartitionedModel(source, Form(Logistic(), True))
    found = solve(Problem(model, constraint, (SUPPORT + 0.5) * constraint.cap), tol=tol, start=start)
    seconds = time.perf_counter() - began
    done.set()
    sampling.join()
    n, d = source.chunked.shape
    truth = np.load(folder / "truth.npy")
    large = np.flatnonzero(np.abs(found.x[:d]) >= constraint.threshold)
    return {
        "n": n,
        "d": d,
        "seconds": seconds,
        "passes": source.passes,
        "rounds": model.traffic.rounds,
        "full_gradients": model.traffic.full_gradients,
        "RssAnon": max(most[0], anonymous()),
        "kkt": found.certificate.kkt,
        "status": str(found.status),
        "nonzero": int(np.count_nonzero(found.x[:d])),
        "of the truth": f"{np.intersect1d(large, truth).size} of {truth.size}",
        "cached before": before,
        "cached after": cached(folder / "X.npy"),
    }


def main() -> int:
    """Everything, in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--gb", type=float, default=20.0)
    parser.add_argument("--d", type=int, default=2000)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--start", default="auto")
    parser.add_argument("--memory", type=float, default=2.0, help="gigabytes for columns that are kept")
    parser.add_argument("--cold", action="store_true", help="drop what was read from the page cache")
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    parser.add_argument("--only", choices=["generate", "read", "fit"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only == "generate":
        generate(given.folder, given.gb * 1e9, given.d)
        return 0
    if given.only == "read":
        print(json.dumps(read(given.folder / "X.npy")))
        return 0
    if given.only == "fit":
        print(json.dumps(fit(given.folder, given.tol, given.start, int(given.memory * 1e9), given.cold)))
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)

    def apart(what: str) -> Any:
        command = [sys.executable, "-m", "benchmarks.larger_than_memory", *sys.argv[1:], "--only", what]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout) if run.stdout else None

    made = not (given.folder / "X.npy").exists()
    try:
        if made:
            apart("generate")
        size = (given.folder / "X.npy").stat().st_size
        reads = [apart("read")]
        row = apart("fit")
        reads.append(apart("read"))
    finally:
        if made and not given.keep:
            for name in ("X.npy", "y.npy", "truth.npy"):
                (given.folder / name).unlink(missing_ok=True)
    once = min(reads)
    ratio = row["seconds"] / (row["passes"] * once)
    print(f"{size / 1e9:.2f} GB of float32, {row['n']} x {row['d']}; start {given.start}, tol {given.tol:g}")
    print(f"read, cold     {reads[0]:8.1f} s and {reads[1]:.1f} s: {size / 1e9 / once:.2f} GB/s")
    print(f"fit            {row['seconds']:8.1f} s: {row['status']}, kkt {row['kkt']:.1e}, {row['nonzero']} not zero, ")
    print(f"               {row['of the truth']} of the true features among those past the threshold")
    print(f"rounds         {row['rounds']:8d}, {row['full_gradients']} full; {row['passes']:.2f} passes over the file")
    print(f"cached         {row['cached before']:8.0%} before the fit, {row['cached after']:.0%} after it")
    print(f"RssAnon        {row['RssAnon'] / 1e9:8.2f} GB, at most {MOST_MEMORY / 1e9:g}")
    print(f"time           {ratio:8.2f} x passes x read, at most {MOST_TIME:g}")
    missed = [what for what, bad in (("memory", row["RssAnon"] > MOST_MEMORY), ("time", ratio > MOST_TIME)) if bad]
    print("missed: " + ", ".join(missed) if missed else "both bars are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
