"""Random small problems with costs of features, and their best sets by enumeration.

`python -m tests.support.cost_problems --problems 300` counts how often the best of all sets within the budget is found,
for each loss, and all that is wrong with the answers.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from levelprox import Status, best_subset
from tests.support.brute_force import objective_of
from tests.support.independent_refits import Oracle
from tests.support.subset_problems import CLASSES, KINKED, LOSSES, MARGINS, NOT_CONVEX, Case, Double, Set


@dataclass(frozen=True, eq=False)
class CostCase:
    """A problem, what its features cost, and what may be spent; `case.k` is a limit besides, or all features."""

    case: Case
    cost: Double
    budget: float

    @property
    def counted(self) -> list[int]:
        """The features that are not kept."""
        return [j for j in range(self.cost.size) if j not in self.case.keep]

    def spent(self, features: Any) -> Fraction:
        """What a set costs, exactly."""
        return sum((Fraction(float(self.cost[j])) for j in features if j not in self.case.keep), Fraction(0))

    def allows(self, features: Any) -> bool:
        """Whether a set is within the budget and the limit."""
        counted = [j for j in features if j not in self.case.keep]
        return len(counted) <= self.case.k and self.spent(counted) <= Fraction(self.budget)

    def largest_sets(self) -> list[Set]:
        """All sets that are allowed, except for those to which a feature could be added: none of these is better."""
        found: list[Set] = []
        counted = self.counted
        for size in range(len(counted) + 1):
            for features in itertools.combinations(counted, size):
                if self.allows(features):
                    rest = (j for j in counted if j not in features)
                    if not any(self.allows((*features, j)) for j in rest):
                        found.append(features)
        return found


def cost_case(seed: int, loss: str | None = None) -> CostCase:
    """The problem of that seed: 8 to 10 features, some of them alike, and costs of some kind."""
    rng = np.random.default_rng([seed, 77])
    drawn = LOSSES[seed % len(LOSSES)]
    loss = drawn if loss is None else loss
    d = int(rng.integers(8, 11)) if loss not in CLASSES else 8
    n = int(rng.choice([30, 50, 80]))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.6:  # features that stand for each other
        mix = rng.standard_normal((3, d))
        X = X + float(rng.choice([0.7, 2.0])) * rng.standard_normal((n, 3)) @ mix
    coef = np.where(rng.random(d) < 0.6, rng.choice([-1.0, 1.0], d) * rng.uniform(0.2, 1.2, d), 0.0)
    signal = X @ coef / np.sqrt(d) * 1.5
    noise = rng.standard_normal(n) * float(rng.choice([0.3, 1.0]))
    if loss in MARGINS:
        b = np.where(signal + rng.logistic(size=n) * 0.8 > 0, 1.0, -1.0)
        b[:2] = -1.0, 1.0
    elif loss in CLASSES:
        b = np.digitize(signal + rng.logistic(size=n) * 0.8, [-0.8, 0.8])
        b[:3] = 0, 1, 2
    elif loss == "poisson":
        b = rng.poisson(np.exp(np.clip(0.5 * signal, -3, 3))).astype(float)
    elif loss == "gamma":
        b = np.exp(np.clip(0.5 * (signal + noise), -4, 4))
    else:
        b = signal + noise
    cost = _drawn_costs(rng, d, np.abs(coef))
    budget = _drawn_budget(rng, cost)
    keep = (int(rng.integers(0, d)),) if rng.random() < 0.15 else ()
    signs = np.ones(d, bool) if loss not in CLASSES and rng.random() < 0.12 else None
    parameter = {"huber": 1.35, "cauchy": 1.0, "quantile": 0.7}.get(loss, 0.0)
    case = Case(
        seed,
        ("costs",),
        loss,
        parameter,
        X,
        b,
        int(rng.integers(1, 5)) if rng.random() < 0.2 else d,
        weight=rng.uniform(0.2, 2.0, n) if rng.random() < 0.2 else None,
        intercept=bool(rng.random() < 0.7),
        keep=keep,
        nonnegative=signs,
        prove=bool(rng.random() < 0.5),
    )
    return CostCase(case, cost, budget)


def _drawn_costs(rng: np.random.Generator, d: int, use: Double) -> Double:
    kind = int(rng.integers(0, 6))
    if kind == 0:
        cost = rng.integers(1, 6, d).astype(float)
    elif kind == 1:
        cost = rng.uniform(0.1, 3.0, d)
    elif kind == 2:  # a few that cost much
        cost = np.round(np.exp(rng.normal(0.5, 1.0, d)), 2)
    elif kind == 3:  # the useful ones cost most
        cost = np.round(0.5 + 4 * use + rng.uniform(0, 1, d), 1)
    elif kind == 4:  # some for nothing
        cost = np.where(rng.random(d) < 0.25, 0.0, rng.integers(1, 8, d))
    else:  # tenths, whose sums are not tenths
        cost = rng.integers(1, 10, d) / 10
    return np.asarray(cost, np.float64)


def _drawn_budget(rng: np.random.Generator, cost: Double) -> float:
    share = float(rng.uniform(0.15, 0.6)) * math.fsum(cost)
    return float(np.round(share, 1)) if rng.random() < 0.6 else share


@dataclass
class Outcome:
    """One problem: whether the best set was found, and what is wrong with the answer."""

    problem: CostCase
    optimum: bool = False
    proved: bool = False
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    refits: int = 0


def searched(problem: CostCase, **options: Any) -> Any:
    """The library's answer."""
    case = problem.case
    if case.keep:
        options["keep"] = list(case.keep)
    if case.nonnegative is not None:
        options["nonnegative"] = True
    k = None if case.k == case.X.shape[1] else case.k
    cost, budget = problem.cost, problem.budget
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return best_subset(objective_of(case), k, feature_cost=cost, budget=budget, prove=case.prove, **options)


def judged(problem: CostCase, found: Any, oracle: Oracle | None = None) -> Outcome:
    """A result compared with enumeration: every set within the budget, every swap and every addition."""
    outcome = Outcome(problem, refits=found.n_refits)
    case = problem.case
    oracle = oracle or Oracle(case)
    support = tuple(map(int, found.support))
    whole = np.zeros((case.X.shape[1] + 1, case.n_outputs))
    rows = found.x.reshape(-1, case.n_outputs)
    whole[: rows.shape[0]] = rows
    psi, tolerance = float(oracle.psi(whole)), oracle.tolerance
    nonzero = tuple(j for j in problem.counted if np.any(whole[j] != 0))
    outside = [j for j in problem.counted if j not in support]
    if nonzero != support or not problem.allows(nonzero):
        outcome.wrong.append(f"{nonzero} for support {support} at {float(problem.spent(nonzero))} of {problem.budget}")
    if found.spent != float(problem.spent(support)) or found.budget != problem.budget:
        outcome.wrong.append(f"spent {found.spent}, and it is {float(problem.spent(support))}")
    if abs(found.psi - psi) > 1e-9 * oracle.scale + oracle.rounding(whole):
        outcome.wrong.append(f"psi {found.psi} is {psi}")
    swaps = [tuple(sorted({*support, j} - {i})) for i in support for j in outside]
    swaps = [features for features in swaps if problem.spent(features) <= Fraction(problem.budget)]
    more = [j for j in outside if problem.spent((*support, j)) <= Fraction(problem.budget)]
    if found.status is Status.SOLVED and found.swaps.total != len(swaps):
        outcome.wrong.append(f"{found.swaps.total} swaps within the budget, and there are {len(swaps)}")
    if found.additions is not None and found.additions.total != len(more):
        outcome.wrong.append(f"{found.additions.total} additions within the budget, and there are {len(more)}")
    outcome.proved = found.swaps.proved and not found.swaps.local
    values = oracle.values([*swaps, *((*support, j) for j in more)])
    swapped, added = values[: len(swaps)], values[len(swaps) :]
    if outcome.proved and swaps and min(swapped) < psi - tolerance:
        outcome.wrong.append(f"a swap lowers psi from {psi} to {min(swapped)}")
    if case.loss not in NOT_CONVEX:
        gain = max([0.0, *(psi - value for value in added)])
        if found.additions is not None and found.additions.proved and abs(gain - found.multiplier) > tolerance:
            outcome.wrong.append(f"one more gains {gain}, said {found.multiplier}")
        if len(support) < case.k and gain > tolerance:
            outcome.wrong.append(f"room for one more that gains {gain}")
    lowest = min(oracle.values(problem.largest_sets()))
    outcome.optimum = psi <= lowest + tolerance
    return outcome


def main() -> None:
    """Count."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.cost_problems")
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loss", choices=LOSSES)
    options = parser.parse_args()
    outcomes = []
    for seed in range(options.seed, options.seed + options.problems):
        problem = cost_case(seed, options.loss)
        began = time.process_time()
        found = searched(problem)
        seconds = time.process_time() - began
        outcome = judged(problem, found)
        outcome.seconds = seconds
        outcomes.append(outcome)
        if outcome.wrong or not outcome.optimum:
            kinked = " kinked" if problem.case.loss in KINKED else ""
            print(seed, problem.case.loss + kinked, "not the best" if not outcome.optimum else "", *outcome.wrong)
    for loss in [*LOSSES, None]:
        some = [one for one in outcomes if loss in (None, one.problem.case.loss)]
        if some:
            best, proved = sum(one.optimum for one in some), sum(one.proved for one in some)
            seconds, refits = sum(one.seconds for one in some), sum(one.refits for one in some)
            print(
                f"{loss or 'together':<14} {len(some):>4} problems, best {best / len(some):7.1%}, all swaps examined "
                f"{proved}, wrong {sum(bool(one.wrong) for one in some)}, {seconds:.2f} s, {refits} refits"
            )
    print(Counter(bool(one.wrong) for one in outcomes))


if __name__ == "__main__":
    main()
