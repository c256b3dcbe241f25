"""Default estimators on twelve data sets, compared with LogisticRegressionCV, LassoCV, abess and skglm.

    python -m benchmarks.first_hour [--quick] [--sets a,b] [--models a,b] [--threads 1,default]
                                    [--load N] [--limit S] [--out results/first_hour.json] [--resume]
                                    [--report]

Data sets and models are in `benchmarks/first_hour_models.py`. One split, 70 to 30, is the same for all models. Every
fit has a process of its own: a small fit first, so that nothing is imported or compiled while the clock runs, then the
fit, with wall and processor time. levelprox runs with one thread and with threads by default, the others with one.

Scores are of held-out samples: log loss, R², or the share of the Poisson deviance that is explained. The standard error
is that of the mean loss over these samples. No warning is suppressed: those of the fit and of the predictions are kept
with their text. On a busy machine wall times say little; scores, features, statuses and warnings do not depend on it,
and processor times little. The verdict on times is about processor seconds with one thread. `--load N` runs N busy
processes during the fits.

Goals: every default fit is solved without a warning; the score of the CV estimator is within one standard error of the
best peer, with no more features than the sparsest peer that is itself within one standard error of the best, on 10 of
12 sets; at most 3 times the seconds of the faster abess (several classes: below 5 s) and never more than 30 s. Rows
that miss a goal stay in the table. The calls and mistakes of `benchmarks/first_use` run at the end.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.first_hour_models import (
    ABESS,
    ABESS_GRID,
    CLASSES,
    MODELS,
    OURS,
    OURS_CV,
    PEERS,
    QUICK,
    SETS,
    Data,
    data,
    features,
    losses,
    small,
)
from benchmarks.processes import ONE_THREAD

Row = dict[str, Any]
ONE, DEFAULT = "1", "default"
GOOD_SETS = 10 / 12
MOST_RATIO, MOST_SECONDS, MOST_SECONDS_CLASSES = 3.0, 30.0, 5.0
PATIENCE = 20.0  # wall seconds for each processor second that a process may take: it may share a core with many
ROOT = Path(__file__).resolve().parent.parent


# --- the process of one fit


def fit(place: Path, name: str, answer: Path, limit: float) -> None:
    """Fit one model to the data in a file, and write what came of it; `limit` is in processor seconds."""
    with place.open("rb") as file:
        one: Data = pickle.load(file)
    used = math.ceil(time.process_time())  # by imports
    resource.setrlimit(resource.RLIMIT_CPU, (used + math.ceil(limit), resource.RLIM_INFINITY))
    told: Row = {}
    try:
        told = _fitted(one, name)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        note = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        told = {"status": "error", "note": " ".join(note.split())[:500]}
    answer.write_text(json.dumps(told), encoding="utf-8")


def _fitted(one: Data, name: str) -> Row:
    X, X_test, y, y_test = one.split()
    make = MODELS[name].make
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the small fit alone
        few, few_y = small(one.task, scipy.sparse.issparse(X))
        warm = MODELS[OURS if name == OURS_CV else name].make  # the CV estimator runs the same code, once for each fold
        losses(one.task, warm(one.task, few, few_y).fit(few, few_y), few, few_y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make(one.task, X, y)
        began, began_cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
        held_out = losses(one.task, model, X_test, y_test)
        right = np.mean(np.asarray(model.predict(X_test)).ravel() == y_test) if one.task in CLASSES else None
    said = Counter((warning.category.__name__, " ".join(str(warning.message).split())) for warning in caught)
    return {
        "status": "ok",
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "features": features(model, X.shape[1]),
        **_score(one.task, held_out, y_test),
        "accuracy": None if right is None else float(right),
        "solved": str(getattr(model, "status_", "")),
        "message": str(getattr(model, "message_", "")),
        "warnings": [{"kind": kind, "text": text, "count": count} for (kind, text), count in said.items()],
    }


def _score(task: str, held_out: Any, y: Any) -> Row:
    """Mean loss and score with the standard error of the mean over samples; None where they are not finite."""
    loss, error = float(np.mean(held_out)), float(np.std(held_out, ddof=1) / math.sqrt(held_out.size))
    if not math.isfinite(loss):
        return {"loss": None, "score": None, "standard_error": None}
    if task in CLASSES:
        return {"loss": loss, "score": -loss, "standard_error": error}
    mean = max(float(np.mean(y)), 1e-15)
    if task == "regression":
        null = float(np.mean((y - np.mean(y)) ** 2))
    else:
        null = float(np.mean(2 * (np.where(y > 0, y * np.log(np.maximum(y, 1) / mean), 0.0) - (y - mean))))
    return {"loss": loss, "score": 1 - loss / null, "standard_error": error / null}


# --- the run


def _asked(place: Path, name: str, threads: str, limit: float, folder: Path) -> Row:
    """Return the result of a fit in its own process, or how that process ended."""
    package = MODELS[name].package
    if importlib.util.find_spec(package) is None:
        return {"status": "not installed", "note": f"{package} is not installed"}
    environment = {key: value for key, value in os.environ.items() if key not in ONE_THREAD}
    if threads == ONE:
        environment |= ONE_THREAD
    environment.pop("PYTHONWARNINGS", None)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.first_hour", "--limit", str(limit), "--child", str(place), name]
    try:
        done = subprocess.run(
            [*command, str(answer)],
            env=environment,
            timeout=PATIENCE * limit,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "note": f"killed after {PATIENCE * limit:g} s"}
    if done.returncode == -signal.SIGXCPU:
        return {"status": "timeout", "seconds": limit, "note": f"killed after {limit:g} s of processor time"}
    if not answer.exists():
        return {"status": "error", "note": f"process ended with {done.returncode}: {done.stderr.strip()[-300:]}"}
    told: Row = json.loads(answer.read_text(encoding="utf-8"))
    return told


@contextmanager
def load(count: int) -> Iterator[None]:
    """Run busy processes during the measurements."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _machine(given: argparse.Namespace) -> Row:
    versions = {}
    for package in ("levelprox", "scikit-learn", "numpy", "scipy", "abess", "skglm"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {"cores": len(os.sched_getaffinity(0)), "busy_processes": given.load, "versions": versions}


def measure(given: argparse.Namespace, kept: list[Row]) -> Iterator[Row]:
    """Rows as they are made; those that are there are not measured again."""
    there = {(row["set"], row["model"], row["threads"], row["busy_processes"]) for row in kept}
    for set_name in given.sets:
        fits = [
            (name, threads)
            for name in given.models
            if SETS[set_name][0] in MODELS[name].tasks
            for threads in (given.threads if name in (OURS, OURS_CV) else (ONE,))
            if (set_name, name, threads, given.load) not in there
        ]
        if not fits:
            continue
        one = data(set_name)
        with tempfile.TemporaryDirectory(prefix="levelprox-first-hour-") as temporary:
            place = Path(temporary) / "data.pickle"
            place.write_bytes(pickle.dumps(one))
            for name, threads in fits:
                row: Row = {"set": set_name, "task": one.task, "source": one.source, "model": name, "threads": threads}
                row |= {"n": one.X.shape[0], "d": one.X.shape[1], "busy_processes": given.load}
                row["load_average"] = os.getloadavg()[0]
                yield row | _asked(place, name, threads, given.limit, Path(temporary))


def first_use() -> Row:
    """Return the first-use calls that fail, and the mistakes without a good error."""
    command = [sys.executable, "-m", "benchmarks.first_use"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    return {"wrong": done.returncode, "text": (done.stdout + done.stderr[-2000:]).strip()}


# --- the judgement


def within_one_error(rows: list[Row]) -> tuple[Row, list[Row]] | None:
    """Return the best of some rows, and those within its standard error; None if none has a score."""
    known = [row for row in rows if row.get("score") is not None]
    if not known:
        return None
    best = max(known, key=lambda row: row["score"])
    return best, [row for row in known if row["score"] >= best["score"] - best["standard_error"]]


def _of(rows: list[Row], set_name: str, name: str) -> Row | None:
    found = (row for row in rows if (row["set"], row["model"], row["threads"]) == (set_name, name, ONE))
    return next(found, None)


def _figure(row: Row) -> str:
    kind = {"regression": "R2", "counts": "D2"}.get(row["task"], "log loss")
    value = row["loss"] if row["task"] in CLASSES else row["score"]
    return f"{kind} {value:.3f}"


def _quality(rows: list[Row], name: str) -> tuple[int, int, list[str]]:
    """On how many sets the score and the features of a model are good enough, of how many, and where they are not."""
    met, judged, missed = 0, 0, []
    for set_name in dict.fromkeys(row["set"] for row in rows):
        own = _of(rows, set_name, name)
        peers = within_one_error([row for row in rows if row["set"] == set_name and row["model"] in PEERS])
        if own is None or peers is None:
            continue
        judged += 1
        best, near = peers
        sparsest = min(near, key=lambda row: row["features"])
        if own.get("score") is None:
            missed.append(f"{set_name}: no score ({own['status']})")
            continue
        wrong = []
        if own["score"] < best["score"] - best["standard_error"]:
            error = best["standard_error"]
            wrong.append(f"{_figure(own)} against {_figure(best)} ± {error:.3f} of {best['model']}")
        if own["features"] > sparsest["features"]:
            wrong.append(f"{own['features']} features against {sparsest['features']} of {sparsest['model']}")
        met += not wrong
        if wrong:
            missed.append(f"{set_name}: {'; '.join(wrong)}")
    return met, judged, missed


def _times(rows: list[Row]) -> tuple[int, list[str]]:
    """How many fits have something to be compared with, and which of them take too long for it."""
    judged, missed = 0, []
    for row in rows:
        if row["model"] not in (OURS, OURS_CV) or row["threads"] != ONE:
            continue
        seconds = row.get("cpu_seconds")
        if row["task"] == "classes":
            judged += 1
            if seconds is None or seconds >= MOST_SECONDS_CLASSES:
                missed.append(f"{row['set']}, {row['model']}: {_seconds(seconds)} s, limit {MOST_SECONDS_CLASSES:g} s")
            continue
        abess = [one for name in (ABESS, ABESS_GRID) if (one := _of(rows, row["set"], name)) is not None]
        known = [one.get("cpu_seconds", one.get("seconds")) for one in abess]  # a timeout is its limit
        if not any(known):
            continue
        judged += 1
        theirs = min(filter(None, known))  # the faster of the two
        if seconds is None or seconds > MOST_RATIO * theirs:
            ratio = "-" if seconds is None else f"{seconds / theirs:.1f}"
            missed.append(f"{row['set']}, {row['model']}: {_seconds(seconds)} s against {theirs:.2f}, ratio {ratio}")
    return judged, missed


def verdicts(rows: list[Row], calls: Row | None = None) -> list[Row]:
    """Each goal, what was found, and every case that misses it; `met` is None where nothing was measured."""
    ours = [row for row in rows if row["model"] in (OURS, OURS_CV)]
    unsolved = [
        f"{_label(row)}: {row['solved'] if row['status'] == 'ok' else row['status']}, "
        f"{row.get('message') or row.get('note', '')}"
        for row in ours
        if row.get("solved") != "solved"
    ]
    warned = [
        f"{_label(row)}: {said['count']} × {said['kind']}: {said['text']}"
        for row in ours
        for said in row.get("warnings", ())
    ]
    warned += [f"{_label(row)}: not known, {row['status']}" for row in ours if row["status"] != "ok"]
    loud = sum(row["status"] != "ok" or bool(row["warnings"]) for row in ours)
    judged, slow = _times(rows)
    long = [
        f"{_label(row)}: {_seconds(row.get('cpu_seconds', row.get('seconds')))} s"
        for row in ours
        if row.get("cpu_seconds", math.inf) > MOST_SECONDS
    ]
    found = [
        _verdict("default fits are solved", len(ours), unsolved),
        _verdict("default fits without a warning", len(ours), warned, loud),
    ]
    for name in (OURS_CV, OURS):
        met, sets, missed = _quality(rows, name)
        enough = None if not sets else met >= GOOD_SETS * sets
        found.append(
            {
                "goal": f"score and features, {name}" + ("" if name == OURS_CV else " (no goal)"),
                "required": "10 of 12" if name == OURS_CV else "-",
                "found": f"{met} of {sets}",
                "met": enough if name == OURS_CV else None,
                "missed": missed,
            }
        )
    found.append(_verdict("at most 3 × abess; several classes below 5 s", judged, slow))
    found.append(_verdict("never more than 30 s", len(ours), long))
    if calls is not None:
        missed = calls["text"].splitlines() if calls["wrong"] else []
        summary = calls["text"].splitlines()[-1:] or [""]
        found.append(
            {
                "goal": "first-use calls",
                "required": "all",
                "found": summary[0],
                "met": not calls["wrong"],
                "missed": missed,
            }
        )
    return found


def _verdict(goal: str, count: int, missed: list[str], misses: int | None = None) -> Row:
    good = count - (len(missed) if misses is None else misses)
    met = None if not count else not missed
    return {"goal": goal, "required": "all", "found": f"{good} of {count}", "met": met, "missed": missed}


def _label(row: Row) -> str:
    return f"{row['set']}, {row['model']}, threads {row['threads']}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def table(rows: list[Row]) -> str:
    """All rows, data set by data set."""
    lines = []
    for set_name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == set_name]
        first = own[0]
        lines.append(f"\n{set_name}: {first['task']}, {first['n']} x {first['d']}, {first['source']}")
        head = f"  {'model':24} {'thr':8}{'features':>8} {'score':>18} {'accuracy':>9} {'cpu s':>8} {'wall s':>8}"
        lines.append(head + "  status, warnings")
        for row in own:
            start = f"  {row['model']:24} {row['threads']:8}"
            if row["status"] != "ok":
                lines.append(f"{start}{row['status']}: {row.get('note', '')}")
                continue
            value = row["loss"] if row["task"] in CLASSES else row["score"]
            score = "not finite" if value is None else f"{value:.4f} ± {row['standard_error']:.4f}"
            accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.3f}"
            count = sum(said["count"] for said in row["warnings"])
            end = ", ".join(filter(None, [row["solved"], f"{count} warnings" if count else ""]))
            lines.append(
                f"{start}{row['features']:8d} {score:>18} {accuracy:>9} {row['cpu_seconds']:8.2f} {row['seconds']:8.2f}"
                f"  {end}"
            )
    said = [
        f"  {_label(row)}: {one['count']} × {one['kind']}: {one['text'][:300]}"
        for row in rows
        for one in row.get("warnings", ())
    ]
    return "\n".join([*lines, "", "warnings:", *(said or ["  none"])])


def report(whole: Row) -> str:
    """Return the tables of a file of results."""
    rows = whole["rows"]
    loads = [row["load_average"] for row in rows]
    machine = whole["machine"]
    lines = [
        f"{machine['cores']} cores, {machine['busy_processes']} busy processes during the fits, load average "
        + (f"{min(loads):.1f} to {max(loads):.1f}" if loads else "-"),
        "versions: " + ", ".join(f"{name} {version}" for name, version in machine["versions"].items()),
        table(rows),
        "",
        f"{'goal':48} {'required':9} {'found':10} verdict (times are processor seconds, one thread against abess)",
    ]
    for one in whole["verdicts"]:
        verdict = {True: "met", False: "missed", None: "-"}[one["met"]]
        lines.append(f"{one['goal']:48} {one['required']:9} {one['found']:10} {verdict}")
        lines += [f"    {missed}" for missed in one["missed"]]
    return "\n".join(lines)


# --- the command line


def _names(known: Any) -> Any:
    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return read


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_hour", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)}; one thread")
    parser.add_argument("--sets", type=_names(SETS), help=f"of {', '.join(SETS)}")
    parser.add_argument("--models", type=_names(MODELS), default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--threads", type=_names((ONE, DEFAULT)), help="of levelprox: 1,default (1 with --quick)")
    parser.add_argument("--load", type=int, default=0, help="busy processes during the fits")
    parser.add_argument("--limit", type=float, default=300.0, help="processor seconds for each fit (300)")
    parser.add_argument("--out", type=Path, default=Path("results/first_hour.json"))
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--report", action="store_true", help="only print the tables of the rows that are there")
    parser.add_argument("--no-first-use", action="store_true", help="leave out the calls of benchmarks/first_use")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Measure the chosen fits, compare them with the goals, and print tables."""
    given = options().parse_args(arguments)
    if given.child:
        place, name, answer = given.child
        fit(Path(place), name, Path(answer), given.limit)
        return
    given.sets = given.sets or list(QUICK if given.quick else SETS)
    given.threads = given.threads or ([ONE] if given.quick else [ONE, DEFAULT])
    whole: Row = {"machine": _machine(given), "rows": [], "first_use": None, "verdicts": []}
    if (given.resume or given.report) and given.out.exists():
        whole = json.loads(given.out.read_text(encoding="utf-8"))
        if given.resume:  # what failed, or was not there, gets another chance
            whole["rows"] = [row for row in whole["rows"] if row["status"] not in ("error", "not installed")]
    if not given.report:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with load(given.load):
            for row in measure(given, list(whole["rows"])):
                whole["rows"].append(row)
                _write(whole, given.out)
                print(f"{_label(row)}: {row['status']} {_seconds(row.get('cpu_seconds'))} s", flush=True)
        if not given.no_first_use:
            whole["first_use"] = first_use()
        order = {name: place for place, name in enumerate(SETS)}
        whole["rows"].sort(key=lambda row: (order[row["set"]], list(MODELS).index(row["model"]), row["threads"]))
        whole["machine"] = _machine(given)
    whole["verdicts"] = verdicts(whole["rows"], whole["first_use"])
    if not given.report:
        _write(whole, given.out)
    print(report(whole))


def _write(whole: Row, path: Path) -> None:
    """Written aside and renamed, so that a run that is stopped leaves the rows it has made."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    aside.replace(path)


if __name__ == "__main__":
    sys.exit(main())
