"""What answers claim, against enumeration: every swap, every addition and every set of a small problem is refitted.

`python -m tests.support.brute_force --problems 2000 --seed 0 --jobs 2` searches as many problems and counts what the
answers claim falsely; `--only SEED` repeats one problem and prints what is wrong with its answer.

==========  ============================================================================================
false       all swaps are said to have been examined, and one of them lowers ψ
low, high   the gain of one more feature is larger, or smaller, than said; or another feature is the best
room        fewer than k features, and a further one gains
halved      the same as false for a fit that is almost exact: a swap halves ψ
refit       ψ can be lowered over the features of the answer
point       ψ, the budget, signs or counts are not what x says
status      the status is not that of the fit
certify     `certify_model` refutes a model that was just fitted
lie         `certify_model` confirms a model that misstates ψ or the gain of one more
exception   the search raised one
hang        no answer within the limit
==========  ============================================================================================

For losses that are not convex low, room and refit only say that a better local minimum was found. All but
`halved` are beyond 1e-6 of the null loss. Not counted as wrong: `optimum`, how often the answer is the best of
all sets of k features; `open`, not all swaps examined; `div`, diverging; `limit`, out of time.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import multiprocessing
import os
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
from scipy.optimize import linprog

from levelprox import (
    LinearModel,
    MultinomialModel,
    SparseClassifier,
    SparseRegressor,
    Status,
    best_subset,
    certify_model,
)
from levelprox.objectives import OneVsRestModel
from levelprox.result import CUT_SHORT
from tests.support.independent_refits import SPANNED, TOLERANCE, Oracle, Refit
from tests.support.subset_problems import CLASSES, KINDS, LOSSES, MARGINS, NOT_CONVEX, Case, Double, Set, case

HALVED = 1e-20  # of the null loss: above, no swap may halve ψ where all are said to have been examined
SECONDS = 20.0  # time_limit of one search


# --- answers, and what is wrong with them


@dataclass(frozen=True)
class Answer:
    """What the library says, in one form for functions and estimators."""

    x: Double  # of shape (d + 1, n_outputs); the last row is the intercept
    psi: float
    support: Set
    multiplier: float
    addition: int | None
    examined: int
    total: int
    stationarity: float
    status: Status
    all_additions: bool = True  # whether the gain of one more is about all features
    local: bool = False  # whether swaps are said to be examined by local refits alone


@dataclass
class Outcome:
    """One problem: what was wrong, and what is counted besides."""

    seed: int
    loss: str
    kinds: tuple[str, ...]
    failures: dict[str, float] = field(default_factory=dict)  # what, and by how much of the null loss
    words: list[str] = field(default_factory=list)
    optimum: bool = False
    proved: bool = False
    status: str = ""
    seconds: float = 0.0  # of the library
    oracle_seconds: float = 0.0

    @property
    def broken(self) -> set[str]:
        """What was wrong and is promised: for a loss that is not convex nothing is said of all its local minima."""
        possible = {"low", "room", "refit", "halved"} if self.loss in NOT_CONVEX else set()
        return set(self.failures) - possible

    def fail(self, what: str, amount: float, words: str) -> None:
        self.failures[what] = max(self.failures.get(what, 0.0), amount)
        self.words.append(f"{what}: {words}")


def objective_of(problem: Case) -> Any:
    """The library's model of the problem."""
    options = {"sample_weight": problem.weight, "offset": problem.offset, "fit_intercept": problem.intercept}
    if problem.loss == "multinomial":
        return MultinomialModel(problem.given, problem.b, **options)
    if problem.loss == "one_vs_rest":
        return OneVsRestModel(problem.given, problem.b, "logistic", **options)
    return LinearModel(problem.given, problem.b, problem.loss_object, **options)


def searched(problem: Case) -> Answer:
    """The library's answer."""
    options: dict[str, Any] = {"prove": problem.prove, "time_limit": SECONDS}
    if problem.keep:
        options["keep"] = list(problem.keep)
    if problem.start is not None:
        options["start"] = list(problem.start)
    if problem.nonnegative is not None:
        signs = problem.nonnegative
        options["nonnegative"] = True if signs.all() else np.append(signs, False) if problem.intercept else signs
    found = best_subset(objective_of(problem), problem.k, **options)
    x = found.x.reshape(-1, problem.n_outputs)
    return answer_of(problem, x, found, found.support, found.status)


def answer_of(problem: Case, x: Double, shown: Any, support: Any, status: Status) -> Answer:
    """From a `Subset` or a certificate."""
    d = problem.X.shape[1]
    whole = np.zeros((d + 1, problem.n_outputs))
    whole[: x.shape[0]] = x
    additions = getattr(shown, "additions", None)
    return Answer(
        whole,
        float(shown.psi),
        tuple(map(int, support)),
        float(shown.multiplier),
        None if shown.addition is None else int(shown.addition),
        int(shown.swaps.examined),
        int(shown.swaps.total),
        float(shown.stationarity),
        status,
        additions is None or additions.examined == additions.total,
        bool(shown.swaps.local),
    )


def fitted_model(problem: Case) -> Any:
    """An estimator, fitted."""
    options: dict[str, Any] = {
        "n_features": problem.k,
        "standardize": problem.standardize,
        "fit_intercept": problem.intercept,
        "ridge": 0.0,
        "positive": problem.nonnegative is not None,
        "time_limit": SECONDS,
    }
    if problem.keep:
        options["feature_weight"] = np.where(np.isin(np.arange(problem.X.shape[1]), problem.keep), 0.0, 1.0)
    if problem.loss in CLASSES:
        kind = "softmax" if problem.loss == "multinomial" else "ovr"
        model = SparseClassifier("logistic", multi_class=kind, **options)
    else:
        model = (SparseClassifier if problem.loss in MARGINS else SparseRegressor)(problem.loss_object, **options)
    return model.fit(problem.given, problem.b, sample_weight=problem.weight)


def estimated(problem: Case) -> tuple[Answer, Any]:
    """An estimator's answer."""
    model = fitted_model(problem)
    x = np.atleast_2d(model.coef_).T
    x = np.vstack([x, np.atleast_1d(model.intercept_)[None, :]])
    support = [j for j in np.flatnonzero(abs(x[:-1]).max(axis=1)) if j not in problem.keep]
    return answer_of(problem, x, model.certificate_, support, model.status_), model


def judge(problem: Case, answer: Answer, oracle: Oracle, outcome: Outcome) -> None:
    """All that is wrong with an answer."""
    counted = [j for j in range(oracle.d) if j not in problem.keep]
    S, tolerance, scale = answer.support, oracle.tolerance, oracle.scale
    outside = [j for j in counted if j not in S]
    outcome.proved = answer.examined == answer.total and not answer.local
    outcome.status = str(answer.status)
    cut = answer.status in CUT_SHORT
    _judge_point(problem, answer, oracle, outcome)
    psi = float(oracle.psi(answer.x))
    # The set itself, every swap, every addition, and every set of k features.
    swaps = [tuple(sorted({*S, j} - {i})) for i in S for j in outside]
    more = [tuple(sorted({*S, j})) for j in outside]
    k = min(problem.k, len(counted))
    every = list(itertools.combinations(counted, k))
    fits = oracle.refits([S, *swaps, *more, *every])
    own, swapped = fits[0], fits[1 : 1 + len(swaps)]
    added, whole = fits[1 + len(swaps) : 1 + len(swaps) + len(more)], fits[1 + len(swaps) + len(more) :]

    def gained(fit: Refit) -> float:
        """What a fit gains; where that is much, without what float64 cannot tell from rounding of its margins."""
        gain = psi - fit.psi
        return gain - oracle.rounding(fit.x) if gain > tolerance else gain

    if gained(own) > tolerance and not cut:
        outcome.fail("refit", (psi - own.psi) / scale, f"ψ = {psi:.12g} over {S}, but {own.psi:.12g} is possible")
    if outcome.proved and swaps and not cut:
        best = min(range(len(swaps)), key=lambda i: swapped[i].psi)
        gain = gained(swapped[best])
        words = f"ψ = {psi:.12g} over {S}, but {swapped[best].psi:.12g} over {swaps[best]}; {answer.examined} examined"
        if gain > tolerance:
            outcome.fail("false", gain / scale, words)
        elif problem.loss == "squared" and psi >= HALVED * scale and gain > psi / 2 + oracle.rounding(answer.x):
            outcome.fail("halved", gain / psi, words)
    gains = [gained(fit) for fit in added]
    # Where the answer is below what these refits find over its own set, they say nothing of what is possible.
    exact = own.psi <= psi + tolerance
    possible = [psi - (fit.least if exact else oracle.infimum) for fit in added]
    most = max(gains, default=0.0)
    if len(S) < problem.k and most > tolerance and not cut:
        j = outside[int(np.argmax(gains))]
        outcome.fail("room", most / scale, f"{len(S)} of {problem.k} features, but feature {j} gains {most:.6g}")
    _judge_gain(answer, outside, gains, possible, oracle, outcome)
    lowest = min(fit.psi for fit in whole)
    outcome.optimum = psi <= lowest + tolerance


def _judge_gain(
    answer: Answer, outside: list[int], gains: list[float], possible: list[float], oracle: Oracle, outcome: Outcome
) -> None:
    """What the best single addition gains: what is sure to be gained, and what may be."""
    tolerance, scale, claimed = oracle.tolerance, oracle.scale, answer.multiplier
    if math.isnan(claimed):
        if answer.status not in CUT_SHORT and answer.all_additions:
            outcome.fail("status", 0.0, f"the gain of one more is not a number, but the search is {answer.status}")
        return
    best = max([0.0, *gains])
    words = f"one more is said to gain {claimed:.9g} (feature {answer.addition}); true gain {best:.9g}"
    words += f" (feature {outside[int(np.argmax(gains))]})" if gains else ""
    if best > claimed + tolerance and answer.all_additions:
        outcome.fail("low", (best - claimed) / scale, words)
    most = 0.0
    if answer.addition is not None and answer.addition not in outside:
        outcome.fail("high", 1.0, f"{words}: it is in the fit already")
    elif answer.addition is not None:
        most = max(possible[outside.index(answer.addition)], 0.0)
    if claimed > most + tolerance and outcome.loss not in NOT_CONVEX:
        outcome.fail("high", (claimed - most) / scale, f"{words}; that one gains {most:.9g}")
    elif answer.addition is not None and best > most + tolerance and answer.all_additions:
        outcome.fail("low", (best - most) / scale, f"{words}; that one gains {most:.9g}")


def _judge_point(problem: Case, answer: Answer, oracle: Oracle, outcome: Outcome) -> None:
    """ψ at x, the budget, signs, counts of swaps, the status."""
    x, d = answer.x, oracle.d
    nonzero = [j for j in range(d) if np.any(x[j] != 0) and j not in problem.keep]
    if not np.all(np.isfinite(x)):
        outcome.fail("point", math.inf, "x is not finite")
        return
    if nonzero != sorted(answer.support) or len(nonzero) > problem.k:
        outcome.fail("point", 1.0, f"{nonzero} are not zero, support {answer.support}, k = {problem.k}")
    if problem.nonnegative is not None and np.any(x[:d, 0][problem.nonnegative] < 0):
        outcome.fail("point", 1.0, f"negative coefficients: {x[:d, 0]}")
    psi = float(oracle.psi(x))
    if not abs(answer.psi - psi) <= 1e-9 * oracle.scale + 1e-12 * abs(psi) + oracle.rounding(x):
        outcome.fail(
            "point", abs(answer.psi - psi) / oracle.scale, f"ψ is said to be {answer.psi:.17g}, and is {psi:.17g}"
        )
    if not 0 <= answer.examined <= answer.total:
        outcome.fail("point", 1.0, f"{answer.examined} of {answer.total} examined")
    if answer.status is Status.DIVERGING and not diverges(problem, oracle, answer.support):
        outcome.fail("status", 0.0, f"{answer.status}, but there is a minimiser over {answer.support}")
    if answer.status not in (Status.SOLVED, Status.SOLVED_INACCURATE, Status.DIVERGING, Status.TIME_LIMIT):
        outcome.fail("status", 0.0, str(answer.status))
    if answer.status is Status.SOLVED and not answer.stationarity <= 1e-6:
        outcome.fail("status", answer.stationarity, f"solved, with stationarity {answer.stationarity:.2e}")


def diverges(problem: Case, oracle: Oracle, features: Set) -> bool:
    """Whether some direction keeps lowering ψ, or at least does not raise it, and changes margins."""
    if problem.loss in ("sigmoid", *CLASSES):
        return True  # not examined
    if problem.loss not in ("logistic", "poisson"):
        return False
    places = [*oracle.always, *sorted({*features, *problem.keep})]
    sets = [tuple(sorted({*features, *problem.keep}))]
    Q = np.asarray(oracle._bases(sets, SPANNED)[0][0], np.float64) if places else np.zeros((oracle.n, 0))
    b = np.asarray(oracle.target, np.float64)
    if Q.shape[1] == 0:
        return False
    falls = b[:, None] * Q if problem.loss == "logistic" else -Q[b == 0]
    equal = Q[b > 0] if problem.loss == "poisson" else None
    # The sum of falls @ a is largest over the box; it is positive just where there is such a direction.
    result = linprog(
        -falls.sum(axis=0),
        A_ub=-falls if falls.size else None,
        b_ub=np.full(falls.shape[0], 1e-9) if falls.size else None,
        A_eq=equal if equal is not None and equal.size else None,
        b_eq=None if equal is None or not equal.size else np.zeros(equal.shape[0]),
        bounds=[(-1, 1)] * Q.shape[1],
        method="highs",
    )
    return bool(result.status != 0 or -result.fun > 1e-7)


def examined(problem: Case) -> Outcome:
    """Search the problem, and judge the answer."""
    outcome = Outcome(problem.seed, problem.loss, problem.kinds)
    model = None
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if problem.standardize is None:
                answer = searched(problem)
            else:
                answer, model = estimated(problem)
                _certify(problem, model, outcome, Oracle(problem), answer.x)
    except Exception:
        outcome.fail("exception", math.inf, traceback.format_exc(limit=-4))
        return outcome
    finally:
        outcome.seconds = time.process_time() - began
    began = time.process_time()
    judge(problem, answer, Oracle(problem), outcome)
    outcome.oracle_seconds = time.process_time() - began
    return outcome


def _certify(problem: Case, model: Any, outcome: Outcome, oracle: Oracle, x: Double) -> None:
    """A correct model is confirmed; one that misstates ψ or the gain of one more is refuted, if that is examined."""
    if model.status_ is not Status.SOLVED:
        return
    data = problem.given, problem.b, problem.weight
    claims = certify_model(model, *data)
    if not claims.hold:
        outcome.fail("certify", 1.0, f"a correct model is refuted:\n{claims}")
    shown = model.certificate_
    least = 1e-6 + 10 * oracle.rounding(x)
    lies = [replace(shown, psi=shown.psi - 1e-3 * (abs(shown.psi) + shown.multiplier) - least)]
    if shown.multiplier > max(1e-3 * abs(shown.psi), TOLERANCE * oracle.scale):
        lies += [replace(shown, multiplier=0.0, addition=None), replace(shown, multiplier=1.01 * shown.multiplier)]
    for lie in lies:
        liar = copy.copy(model)
        liar.certificate_, liar.multiplier_ = lie, lie.multiplier
        claims = certify_model(liar, *data, prove=True)
        if claims.hold and "one more would gain" not in claims.not_examined:
            outcome.fail("lie", 1.0, f"a model that lies is confirmed: {lie}, instead of {shown}")


# --- the command

COLUMNS = ("false", "low", "high", "room", "halved", "refit", "point", "status", "certify", "lie", "exception", "hang")


def _work(pipe: Connection, loss: str | None, kind: str | None) -> None:
    """A worker: seeds in, outcomes out."""
    while (seed := pipe.recv()) is not None:
        try:
            problem = case(seed, loss, kind)
            pipe.send(examined(problem))
        except Exception:
            outcome = Outcome(seed, loss or "?", (kind or "?",))
            outcome.fail("exception", math.inf, "of the reference implementation: " + traceback.format_exc())
            pipe.send(outcome)


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    seed: int | None = None
    since: float = 0.0


def run(
    seeds: Iterable[int],
    jobs: int,
    loss: str | None = None,
    kind: str | None = None,
    limit: float = 120.0,
    work: Any = _work,
) -> Iterable[Outcome]:
    """Outcomes of problems in processes; one that takes longer than the limit is ended, and counts as a hang."""
    context = multiprocessing.get_context("forkserver")

    def started() -> _Worker:
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, loss, kind), daemon=True)
        process.start()
        return _Worker(process, ours)

    left = iter(seeds)
    workers = [started() for _ in range(jobs)]
    busy: list[_Worker] = []

    def give(worker: _Worker) -> None:
        worker.seed = next(left, None)
        worker.since = time.monotonic()
        worker.pipe.send(worker.seed)
        if worker.seed is not None:
            busy.append(worker)

    for worker in workers:
        give(worker)
    while busy:
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in list(busy):
            if worker.pipe in ready:
                busy.remove(worker)
                yield worker.pipe.recv()
                give(worker)
            elif time.monotonic() - worker.since > limit:
                busy.remove(worker)
                worker.process.kill()
                worker.process.join()
                assert worker.seed is not None
                problem = case(worker.seed, loss, kind)
                outcome = Outcome(worker.seed, problem.loss, problem.kinds)
                outcome.fail("hang", math.inf, f"no answer after {limit:g} s")
                yield outcome
                give(started())


def table_of(outcomes: Sequence[Outcome], key: Any, title: str) -> str:
    """Counts of what was wrong, a row for each value of the key."""
    rows = sorted({key(outcome) for outcome in outcomes})
    lines = [
        f"{title:<16} {'all':>6} "
        + " ".join(f"{name:>9}" for name in COLUMNS)
        + f" {'optimum':>8} {'open':>5} {'div':>4} {'limit':>5} {'s':>7} {'oracle':>7}"
    ]
    for row in [*rows, None]:
        some = [outcome for outcome in outcomes if row is None or key(outcome) == row]
        counts = Counter(what for outcome in some for what in outcome.failures)
        status = Counter(outcome.status for outcome in some)
        seconds, oracle = sum(outcome.seconds for outcome in some), sum(outcome.oracle_seconds for outcome in some)
        lines.append(
            f"{'together' if row is None else row:<16} {len(some):>6} "
            + " ".join(f"{counts[name] or '.':>9}" for name in COLUMNS)
            + f" {sum(outcome.optimum for outcome in some) / max(len(some), 1):>8.3f}"
            + f" {sum(not outcome.proved for outcome in some):>5} {status['diverging']:>4} {status['time_limit']:>5}"
            + f" {seconds:>7.1f} {oracle:>7.1f}"
        )
    return "\n".join(lines)


def worst_of(outcomes: Sequence[Outcome], most: int = 6) -> str:
    """Seeds of the worst failures of each sort, for each loss."""
    lines = []
    for what in COLUMNS:
        for loss in sorted({outcome.loss for outcome in outcomes if what in outcome.failures}):
            some = [outcome for outcome in outcomes if outcome.loss == loss and what in outcome.failures]
            some.sort(key=lambda outcome: -outcome.failures[what])
            shown = ", ".join(f"{one.seed} ({one.failures[what]:.1e} {'+'.join(one.kinds)})" for one in some[:most])
            lines.append(f"{what:<10} {loss:<14} {len(some):>5}: {shown}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says whether anything failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.brute_force", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first problem; the others follow")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--loss", choices=LOSSES)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of one problem before it counts as a hang")
    parser.add_argument("--only", type=int, help="one problem, with all that is wrong with its answer")
    options = parser.parse_args(arguments)
    if options.only is not None:
        problem = case(options.only, options.loss, options.kind)
        print(problem)
        outcome = examined(problem)
        print("\n".join(outcome.words) or "nothing wrong")
        print(replace(outcome, words=[]))
        return bool(outcome.broken)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    seeds = range(options.seed, options.seed + options.problems)
    outcomes: list[Outcome] = []
    for outcome in run(seeds, options.jobs, options.loss, options.kind, options.limit):
        outcomes.append(outcome)
        if outcome.broken:
            print(
                f"--only {outcome.seed}: {outcome.loss} {'+'.join(outcome.kinds)}",
                *outcome.words,
                sep="\n  ",
                flush=True,
            )
        if len(outcomes) % 100 == 0:
            counts = Counter(what for outcome in outcomes for what in outcome.failures)
            print(len(outcomes), "problems:", ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)
    print(table_of(outcomes, lambda outcome: outcome.loss, "loss"))
    print()
    print(table_of(outcomes, lambda outcome: outcome.kinds[0], "kind"))
    print()
    print(worst_of(outcomes))
    return any(outcome.broken for outcome in outcomes)


if __name__ == "__main__":
    raise SystemExit(main())
