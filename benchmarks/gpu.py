"""A level fit with X on one GPU: its time against the bytes of X that it touches, and against other programs.

    python benchmarks/gpu.py [--scale 0.01] [--no-peers] [--device cuda]

X is 1,000,000 × 10,000 standard normal numbers in float32, row by row, made on the device; labels are logistic with 100
features of |coefficient| 0.2 … 1. MCP of threshold 0.2, level (100 + ½)·cap, direct start, KKT 1e-4; then the same with
half of the rows in float64 and KKT 1e-6. A fit is `DeviceSource(X, y).model(form)` and `solve`. Times are of CUDA
events; one fit of a small problem before them warms up, and the median of three counts.

The floor is bytes of X touched / bandwidth. A look at all features touches X once; a gathered column touches its own
n entries, and no more (`floor_with_sectors` counts the 32-byte sectors of memory that they are in instead).
The bandwidth is that of a large copy on the same device in the same run, bytes read and written.

Peers in the same run: ℓ1 by proximal gradient with momentum and restarts on the same X (`proximal_gradient`), and
scikit-learn's LogisticRegression with an ℓ1 penalty on the CPU with 1 % of the rows, times 100.

`--scale 0.01` takes a hundredth of the rows; without a GPU events are replaced by a clock.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from levelprox._solve import solve
from levelprox.backends.device_design import Columns, DeviceDesign
from levelprox.backends.device_source import DeviceSource
from levelprox.backends.gpu import DeviceModel
from levelprox.backends.partition import Form
from levelprox.constraints import MCP
from levelprox.losses import Logistic
from levelprox.problem import Problem
from levelprox.result import Result

ROWS, FEATURES, TRUE = 1_000_000, 10_000, 100
THRESHOLD = 0.2
MOST_SECONDS, MOST_FLOORS = 1.0, 3.0
SECTOR = 32  # bytes
FITS = 3
COPIED = 2**32  # bytes


class Clock:
    """Seconds between two moments of the device."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def now(self) -> Any:
        """Record an event in the order of the work of the device."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, before: Any, after: Any) -> float:
        """Seconds; waits for the device."""
        if not self.cuda:
            return float(after - before)
        after.synchronize()
        return float(before.elapsed_time(after)) / 1000

    def timed(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """How long some work takes, and what it gives."""
        before = self.now()
        made = work()
        return self.between(before, self.now()), made


def generate(n: int, d: int, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """X, labels and the features that they are of; X is made where it stays."""
    source = torch.Generator(device=device).manual_seed(0)
    X = torch.empty((n, d), dtype=dtype, device=device).normal_(generator=source)
    rng = np.random.default_rng(0)
    chosen = rng.choice(d, min(TRUE, d), replace=False)
    truth = rng.choice([-1.0, 1.0], chosen.size) * rng.uniform(0.2, 1.0, chosen.size)
    z = X.index_select(1, torch.tensor(chosen, device=device)) @ torch.tensor(truth, dtype=dtype, device=device)
    luck = torch.rand(n, generator=source, device=device, dtype=dtype)
    return X, torch.where(luck < torch.sigmoid(z), 1.0, -1.0), np.sort(chosen)


def bandwidth(clock: Clock, device: torch.device, size: int) -> float:
    """Bytes read and written per second by a copy on the device; the median of ten."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    seconds = [clock.timed(lambda: target.copy_(source))[0] for _ in range(10)]
    return 2 * source.nbytes / statistics.median(seconds)


def fit(X: torch.Tensor, y: torch.Tensor, tol: float, k: int = TRUE) -> tuple[Result, DeviceModel]:
    """Run a level fit."""
    model = DeviceSource(X, y).model(Form(Logistic()))
    constraint = MCP.from_threshold(THRESHOLD)
    return solve(Problem(model, constraint, (k + 0.5) * constraint.cap), start="direct", tol=tol), model


class Watch:
    """Where the time of one fit goes, and which bytes of X it touches."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.moments: dict[str, list[tuple[Any, Any]]] = {
            name: [] for name in ("full_passes", "gathers", "gram", "queries", "besides")
        }
        self.gathered: list[np.ndarray] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the queries inside the block."""
        places = [
            (DeviceDesign, "rmatvec", "full_passes"),
            (DeviceDesign, "gathered", "gathers"),
            (Columns, "gram", "gram"),
            (DeviceModel, "partial_sums", "queries"),
            (DeviceDesign, "typical_squares", "besides"),
            (DeviceModel, "is_separated", "besides"),
        ]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for (owner, name, original), (_, _, phase) in zip(originals, places, strict=True):
            setattr(owner, name, self._noting(original, phase))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _noting(self, original: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def noting(owner: Any, argument: Any, *args: Any, **options: Any) -> Any:
            if phase == "gathers":
                self.gathered.append(np.asarray(argument))
            before = self.clock.now()
            answer = original(owner, argument, *args, **options)
            self.moments[phase].append((before, self.clock.now()))
            return answer

        return noting

    def phases(self, total: float) -> dict[str, float]:
        """Return the seconds of each phase; those of the host are all outside queries."""
        seconds = {name: sum(self.clock.between(*pair) for pair in pairs) for name, pairs in self.moments.items()}
        device = seconds.pop("queries") + seconds.pop("besides")
        return {**seconds, "other_device": device - sum(seconds.values()), "host": total - device}

    def touched(self, X: torch.Tensor) -> tuple[int, int]:
        """Return the bytes of X in full passes and gathered columns; and the same with whole sectors for the latter."""
        whole, size = X.numel() * X.element_size(), X.element_size()
        entries = sum(features.size for features in self.gathered) * X.shape[0] * size
        sectors = sum(np.unique(features * size // SECTOR).size for features in self.gathered) * X.shape[0] * SECTOR
        passes = len(self.moments["full_passes"]) * whole
        return passes + entries, passes + sectors


def measured(
    name: str, X: torch.Tensor, y: torch.Tensor, chosen: np.ndarray, tol: float, clock: Clock, rate: float
) -> Any:
    """Run the fit three times, once more to profile it, and compare it with its bars."""
    seconds = []
    for _ in range(FITS):
        took, (result, model) = clock.timed(lambda: fit(X, y, tol))
        seconds.append(took)
    watch = Watch(clock)
    with watch.watching():
        watched, _ = clock.timed(lambda: fit(X, y, tol))
    entries, sectors = watch.touched(X)
    median = statistics.median(seconds)
    support = np.flatnonzero(result.x)
    crossed = model.transfers
    row = {
        "what": name,
        "n": X.shape[0],
        "d": X.shape[1],
        "dtype": str(X.dtype).removeprefix("torch."),
        "status": str(result.status),
        "kkt": result.kkt,
        "tol": tol,
        "psi": result.psi,
        "nonzero": int(support.size),
        "found": int(np.isin(chosen, support).sum()),
        "seconds": median,
        "all_seconds": seconds,
        "full_passes": len(watch.moments["full_passes"]),
        "gathered_columns": int(sum(features.size for features in watch.gathered)),
        "grams": len(watch.moments["gram"]),
        "queries": len(watch.moments["queries"]),
        "bytes_touched": entries,
        "bytes_touched_with_sectors": sectors,
        "floor": entries / rate,
        "floor_with_sectors": sectors / rate,
        "floors": median / (entries / rate),
        "phases": watch.phases(watched),
        "watched_seconds": watched,
        "bytes_to_host": crossed.bytes_to_host,
        "transfers": crossed.count,
    }
    row["bars"] = {"seconds": median <= MOST_SECONDS, "floors": row["floors"] <= MOST_FLOORS}
    if X.device.type == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated()
    report(row, rate)
    return row


def report(row: dict[str, Any], rate: float) -> None:
    """Return the description of a fit."""
    met = {name: "met" if bar else "MISSED" for name, bar in row["bars"].items()}
    phases = ", ".join(f"{phase} {s * 1000:.1f} ms" for phase, s in row["phases"].items())
    print(
        f"{row['what']}: {row['n']} x {row['d']} {row['dtype']}  {row['status']}  KKT {row['kkt']:.1e}  "
        f"nonzero {row['nonzero']} (true {row['found']})  psi {row['psi']:.6f}",
        f"  {row['seconds']:.4f} s (all {', '.join(f'{s:.4f}' for s in row['all_seconds'])}), "
        f"bar {MOST_SECONDS} s: {met['seconds']}",
        f"  floor {row['floor']:.4f} s = {row['bytes_touched'] / 1e9:.1f} GB / {rate / 1e9:.0f} GB/s; "
        f"{row['floors']:.2f} floors, bar {MOST_FLOORS}: {met['floors']}; "
        f"with sectors {row['seconds'] / row['floor_with_sectors']:.2f}",
        f"  {row['full_passes']} full passes, {row['gathered_columns']} columns gathered, {row['grams']} Gram "
        f"matrices, {row['queries']} queries, {row['bytes_to_host']} bytes to the host",
        f"  phases of a fit of {row['watched_seconds']:.4f} s: {phases}",
        sep="\n",
        flush=True,
    )


class ProximalGradient:
    """min Σ log(1 + exp(−y⟨a, x⟩))/n + λ‖x‖₁ by proximal gradient steps with momentum and restarts (FISTA).

    The step is 1/L, L = λ_max(X'X)/(4n) by the power method, which is part of its time.
    """

    def __init__(self, X: torch.Tensor, y: torch.Tensor) -> None:
        self.X, self.y = X, y.to(X.dtype)
        self.passes = 0

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """Xx."""
        self.passes += 1
        return self.X @ x

    def pulled_back(self, r: torch.Tensor) -> torch.Tensor:
        """X'r."""
        self.passes += 1
        return self.X.T @ r

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Of the smooth part."""
        return self.pulled_back(-self.y * torch.sigmoid(-self.y * self.product(x))) / self.X.shape[0]

    def bend(self) -> float:
        """L, and some more for what is still missing."""
        v = torch.ones(self.X.shape[1], dtype=self.X.dtype, device=self.X.device)
        size = 1.0
        for _ in range(10):
            v = self.pulled_back(self.product(v / v.norm()))
            size = float(v.norm())
        return 1.05 * size / (4 * self.X.shape[0])

    def solve(self, share: float, tol: float, x: torch.Tensor, bend: float, most: int) -> tuple[torch.Tensor, float]:
        """Run until the KKT residual is `tol` of ‖∇ψ(0)‖∞, checked every ten steps; λ is a fraction of ‖∇ψ(0)‖∞."""
        scale = float(self.gradient(torch.zeros_like(x)).abs().max())
        lam, ahead, momentum, residual = share * scale, x, 1.0, math.inf
        for step in range(most):
            moved = ahead - self.gradient(ahead) / bend
            new = torch.sign(moved) * torch.clamp(moved.abs() - lam / bend, min=0)
            if float(torch.dot(ahead - new, new - x)) > 0:
                momentum = 1.0
            after = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            ahead, x, momentum = new + (momentum - 1) / after * (new - x), new, after
            if step % 10 == 9:
                slope = self.gradient(x)
                off = torch.where(x != 0, (slope + lam * torch.sign(x)).abs(), torch.clamp(slope.abs() - lam, min=0))
                residual = float(off.max()) / scale
                if residual <= tol:
                    break
        return x, residual


def proximal_gradient(X: torch.Tensor, y: torch.Tensor, tol: float, wanted: int, clock: Clock) -> dict[str, Any]:
    """Run the peer at a λ with about as many features, found by bisection at a rough tolerance, not timed."""
    search = ProximalGradient(X, y)
    zero = torch.zeros(X.shape[1], dtype=X.dtype, device=X.device)
    bend, low, high, x, share = search.bend(), 1e-4, 1.0, zero, 0.1
    for _ in range(10):
        share = math.sqrt(low * high)
        x, _ = search.solve(share, 10 * tol, x, bend, 100)
        count = int((x != 0).sum())
        if abs(count - wanted) <= 0.02 * wanted:
            break
        low, high = (low, share) if count < wanted else (share, high)
    run = ProximalGradient(X, y)
    seconds, (x, residual) = clock.timed(lambda: run.solve(share, tol, zero, run.bend(), 1000))
    loss = float(torch.nn.functional.softplus(-run.y * (X @ x)).double().mean())
    row = {
        "what": "torch, l1 by proximal gradient",
        "seconds": seconds,
        "passes": run.passes,
        "kkt": residual,
        "nonzero": int((x != 0).sum()),
        "psi": loss,
        "lambda_over_largest": share,
        "lambda": share * float(search.gradient(zero).abs().max()),
    }
    print(
        f"{row['what']}: {seconds:.3f} s, {run.passes} passes, KKT {residual:.1e}, nonzero {row['nonzero']}, "
        f"loss {loss:.6f} (lambda = {share:.3g} of the largest, by bisection on the number of features)",
        flush=True,
    )
    return row


def scikit_learn(X: torch.Tensor, y: torch.Tensor, lam: float, share: float) -> dict[str, Any]:
    """Run the peer on the CPU, with some of the rows."""
    name = "scikit-learn, l1, CPU"
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        print(f"{name}: not run: no scikit-learn")
        return {"what": name, "not_run": "no scikit-learn"}
    m = max(int(share * X.shape[0]), 100)
    rows, labels = X[:m].double().cpu().numpy(), y[:m].cpu().numpy()
    model = LogisticRegression(
        penalty="l1", solver="liblinear", C=1 / (lam * m), fit_intercept=False, tol=1e-4, max_iter=200
    )
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, labels)
    seconds = time.perf_counter() - began
    row = {"what": name, "rows": m, "seconds": seconds, "seconds_scaled": seconds * X.shape[0] / m}
    row["nonzero"] = int(np.count_nonzero(model.coef_))
    print(
        f"{name}: {seconds:.2f} s with {m} rows, nonzero {row['nonzero']}; scaled to all rows "
        f"{row['seconds_scaled']:.0f} s (time x rows, not measured)",
        flush=True,
    )
    return row


def main() -> None:
    """Run the chosen fits, print the results, and write them as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows")
    parser.add_argument("--features", type=int, default=FEATURES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-float64", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)
    clock, n, d = Clock(device), int(options.scale * ROWS), options.features
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU: times are no measure of anything"
    print(f"{where}, torch {torch.__version__}, numpy {np.__version__}")
    rate = bandwidth(clock, device, COPIED if device.type == "cuda" else COPIED // 64)
    print(f"copy: {rate / 1e9:.0f} GB/s, bytes read and written")
    rows: list[dict[str, Any]] = []
    small, labels, _ = generate(min(n, 20_000), d, torch.float32, device)
    fit(small, labels, 1e-4)
    fit(small.double(), labels, 1e-6)
    del small, labels
    X, y, chosen = generate(n, d, torch.float32, device)
    rows.append(measured("levelprox, MCP", X, y, chosen, 1e-4, clock, rate))
    if not options.no_peers:
        peer = proximal_gradient(X, y, 1e-4, rows[0]["nonzero"], clock)
        rows += [peer, scikit_learn(X, y, peer["lambda"], 0.01 if options.scale == 1 else 0.2)]
    if not options.no_float64:
        del X, y
        X, y, chosen = generate(n // 2, d, torch.float64, device)
        rows.append(measured("levelprox, MCP, float64", X, y, chosen, 1e-6, clock, rate))
    kept = Path(os.environ.get("OUT", "results"))
    kept.mkdir(parents=True, exist_ok=True)
    report = {"device": where, "torch": torch.__version__, "scale": options.scale, "bandwidth": rate, "rows": rows}
    (kept / "gpu.json").write_text(json.dumps(report, indent=1))
    print(f"written to {kept / 'gpu.json'}")


if __name__ == "__main__":
    main()
