"""Quality of selected features: `best_subset` against exhaustive search, abess, skglm's MCP and planted features.

    python -m experiments.selection_quality [--quick] [--only small,generated,recovery] [--again levelprox] [--out DIR]

- small: 200 problems of squared loss (d 20-25, k 3-5) and 20 of logistic loss (d 15-20, k = 3), small enough to look at
  every subset: on at least 95 % of them the loss is that of the best one, to 1e-8.
- generated: 200 problems (n 200-2000, d 100-5000, k 5-20, correlations up to 0.9, three signal-to-noise ratios, both
  losses): on at least 95 % of them no other of equal k has a lower loss.
- recovery: how often exactly the planted features are found, against n, for d = 1000, k = 10: at no n less often than
  any other finds them.

Losses are the judge's, refitted with an intercept on the chosen features alone (experiments/judge.py); who the others
are is said in experiments/contenders.py. Those that are not installed are left out and said to be. Each answer is a row
of selection_quality.csv, written at once: a run that was killed resumes; `--again NAME` runs one contender
again.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from experiments import verdicts
from experiments.contenders import CONTENDERS
from experiments.judge import best_support, loss_with
from experiments.ledger import NOT_INSTALLED, Choice, Ledger
from experiments.planted import LOSSES, STRUCTURES, Planted, Recipe, draw
from experiments.results import COLORS, options, panels, save, write_csv
from experiments.verdicts import BEST, OURS, TRUTH, Lost, Round, Verdict

SNRS = (0.3, 1.0, 4.0)
RECOVERY_SAMPLES = (100, 120, 140, 160, 180, 200, 240, 300)
_REPEATS = 30


def small_recipes() -> list[Recipe]:
    """200 of squared, then 20 of logistic loss."""
    return [_small("squared", 1000 + i) for i in range(200)] + [_small("logistic", 2000 + i) for i in range(20)]


def _small(loss: str, seed: int) -> Recipe:
    """Other features may matter, and more or fewer of them, than can be chosen."""
    rng = np.random.default_rng([seed, 1])
    squared = loss == "squared"
    return Recipe(
        seed,
        loss,
        n=int(rng.integers(40, 201)) if squared else int(rng.integers(100, 201)),
        d=int(rng.integers(20, 26)) if squared else int(rng.integers(15, 21)),
        planted=int(rng.integers(3, 11)),
        asked=int(rng.integers(3, 6)) if squared else 3,
        structure=STRUCTURES[seed % 2],
        correlation=float(rng.choice((0.0, 0.3, 0.6, 0.8, 0.9, 0.95))),
        snr=SNRS[seed // 2 % 3],
    )


def generated_recipes() -> list[Recipe]:
    """Return 200 problems with alternating losses, structures and signal-to-noise ratios."""
    return [_generated(10_000 + i) for i in range(200)]


def _generated(seed: int) -> Recipe:
    """Return a problem with random sizes, uniform in their logarithms; in half of them k is the number planted."""
    rng = np.random.default_rng([seed, 1])
    planted, other = (int(k) for k in rng.integers(5, 21, 2))
    return Recipe(
        seed,
        loss=LOSSES[seed % 2],
        n=round(math.exp(rng.uniform(math.log(200), math.log(2000)))),
        d=round(math.exp(rng.uniform(math.log(100), math.log(5000)))),
        planted=planted,
        asked=planted if rng.random() < 0.5 else other,
        structure=STRUCTURES[seed // 2 % 2],
        correlation=float(rng.choice((0.0, 0.3, 0.6, 0.9))),
        snr=SNRS[seed // 4 % 3],
    )


def recovery_recipes() -> list[Recipe]:
    """All n once, then all of them again: a run cut short has something at every n."""
    return [
        Recipe(100_000 + 1000 * repeat + n, "squared", n, 1000, 10, 10, "ar1", 0.3, snr=2.0, spread=0.0)
        for repeat in range(_REPEATS)
        for n in RECOVERY_SAMPLES
    ]


@dataclass(frozen=True)
class Part:
    """Problems, those who answer, and those of them that are measured against."""

    name: str
    recipes: tuple[Recipe, ...]
    contenders: tuple[str, ...]
    others: tuple[str, ...]


def parts(quick: bool) -> list[Part]:
    """All three; quick ones are some of the same problems."""
    every, drawn, curve = small_recipes(), generated_recipes(), recovery_recipes()
    if quick:
        every = every[:20] + every[-4:]
        drawn = sorted(drawn, key=lambda recipe: recipe.n * recipe.d)[:12]
        curve = [recipe for recipe in curve[: 3 * len(RECOVERY_SAMPLES)] if recipe.n in RECOVERY_SAMPLES[1::3]]
    # Cross-validation does not get k; the first two contenders of the recovery part do.
    cut, validated = ("abess", "abess path", "skglm MCP"), ("abess", "skglm MCP", "skglm MCP CV", "LassoCV")
    return [
        Part("small", tuple(every), (BEST, OURS), (BEST,)),
        Part("generated", tuple(drawn), (OURS, *cut), cut),
        Part("recovery", tuple(curve), (TRUTH, OURS, *validated), validated),
    ]


@dataclass(frozen=True)
class Task:
    """A problem and those who have not answered it."""

    part: str
    recipe: Recipe
    contenders: tuple[str, ...]


def answer(task: Task) -> list[Choice]:
    """Ask each contender; the data are drawn once, on one thread."""
    with threadpool_limits(1):
        problem = draw(task.recipe)
        return [ask(task.part, problem, name) for name in task.contenders]


def ask(part: str, problem: Planted, name: str) -> Choice:
    """Return the choice of a contender with its loss; a failure has an infinite loss and a note."""
    recipe, began = problem.recipe, time.perf_counter()
    try:
        if name == TRUTH:
            chosen = problem.truth
        elif name == BEST:
            chosen = best_support(problem.X, problem.b, recipe.loss, recipe.asked)
        else:
            chosen = CONTENDERS[name](problem, recipe.asked)
    except ImportError as error:
        return Choice(part, recipe.seed, name, math.inf, note=f"{NOT_INSTALLED}: {error.name or error}")
    except Exception as error:  # a contender may fail in any way; the others continue
        return Choice(part, recipe.seed, name, math.inf, note=f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - began
    loss = loss_with(problem.X, problem.b, recipe.loss, chosen)
    return Choice(part, recipe.seed, name, loss, " ".join(map(str, chosen.tolist())), seconds)


def missing(chosen: Iterable[Part], ledger: Ledger) -> list[Task]:
    """Return the problems and contenders that have not been run."""
    tasks = []
    for part in chosen:
        for recipe in part.recipes:
            absent = tuple(name for name in part.contenders if (part.name, recipe.seed, name) not in ledger)
            if absent:
                tasks.append(Task(part.name, recipe, absent))
    return tasks


def answers(tasks: Sequence[Task], jobs: int) -> Iterator[list[Choice]]:
    """Of all tasks, as they come."""
    if jobs == 1:
        yield from map(answer, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(answer, task) for task in tasks]):
                yield done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def run(chosen: Sequence[Part], ledger: Ledger, jobs: int) -> None:
    """Ask for what is missing, with a line of progress."""
    tasks, began = missing(chosen, ledger), time.monotonic()
    for count, found in enumerate(answers(tasks, jobs), start=1):
        ledger.append(found)
        if sys.stdout.isatty() or count % 20 == 0 or count == len(tasks):
            last = f"{count} of {len(tasks)} problems, {time.monotonic() - began:.0f} s ({found[0].part})"
            print(last, end="\r" if sys.stdout.isatty() else "\n", flush=True)
    if tasks and sys.stdout.isatty():
        print()


def rounds(part: Part, ledger: Ledger) -> list[Round]:
    """Return the choices on every problem of a part."""
    return [
        (
            recipe,
            {
                name: choice
                for name in part.contenders
                if (choice := ledger.choices.get((part.name, recipe.seed, name))) is not None and not choice.absent
            },
        )
        for recipe in part.recipes
    ]


def judge(part: Part, ledger: Ledger) -> tuple[list[Verdict], list[Lost]]:
    """Return the verdicts on a part, and its lost problems."""
    played = rounds(part, ledger)
    if part.name == "small":
        found = verdicts.small(played)
    elif part.name == "generated":
        found = verdicts.generated(played, part.others)
    else:
        found = verdicts.recovery(played, part.others)
    return found, verdicts.losses(part.name, played, part.others)


def show(found: Sequence[Verdict], lost: Sequence[Lost]) -> None:
    """Print the verdicts, then every lost problem."""
    print(f"\n{'bar':52}{'value':>8}{'bar':>7}  {'':12}{'problems':>9}")
    for v in found:
        print(f"{v.bar_name:52}{v.value:8.4g}{v.bar:7.4g}  {v.outcome:12}{v.problems:9d}  {v.detail}")
    if lost:
        print(f"\n{'lost':10}{'seed':>7}  {'to':14}{'n':>5}{'d':>6}{'k':>4}  {'':36}{'ours':>14}{'theirs':>14}")
    for x in lost:
        r = x.recipe
        kind = f"{r.loss} {r.structure} ρ={r.correlation:g} SNR={r.snr:g}"
        where = f"{x.part:10}{x.seed:7d}  {x.to:14}{r.n:5d}{r.d:6d}{r.asked:4d}  {kind:36}"
        print(f"{where}{x.ours:14.9g}{x.theirs:14.9g} {x.note}".rstrip())
    if any(x.part == "recovery" for x in lost):
        print("(recovery: theirs is the loss of the planted features, which they found.)")


def draw_recovery(part: Part, ledger: Ledger, path: Path) -> None:
    """Draw the share of exact supports against n."""
    played = rounds(part, ledger)
    figure, axes = panels(1, 1, width=4.5, height=3.2)
    for name, color in zip((OURS, *part.others), COLORS, strict=False):
        shares = {
            n: np.mean(hits)
            for n in sorted({recipe.n for recipe in part.recipes})
            if (hits := [verdicts.exact(c, name) for r, c in played if r.n == n and {name, TRUTH} <= c.keys()])
        }
        axes[0, 0].plot(list(shares), list(shares.values()), "o-", color=color, markersize=3.5, label=name)
    axes[0, 0].set(xlabel="n", ylabel="share of exact supports", ylim=(-0.03, 1.03))
    axes[0, 0].legend(fontsize=7)
    save(figure, path)


def draw_ratios(part: Part, ledger: Ledger, path: Path) -> None:
    """Draw the sorted ratios of their loss to that of levelprox: above 1 where levelprox is better."""
    figure, axes = panels(1, len(part.others), width=2.9)
    for axis, other in zip(axes.flat, part.others, strict=True):
        for loss, color in zip(LOSSES, COLORS, strict=False):
            pairs = verdicts.compared([r for r in rounds(part, ledger) if r[0].loss == loss], other)
            ratios = sorted(verdicts.ratio(theirs, ours) for _, ours, theirs in pairs if ours.loss > 0)
            axis.plot(np.linspace(0, 1, len(ratios)), ratios, ".", color=color, markersize=3, label=loss)
        axis.axhline(1, color="0.4", linewidth=0.8)
        axis.set(xlabel="share of problems", ylabel=f"loss of {other} / levelprox")
    axes[0, 0].legend(fontsize=7)
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write, evaluate and draw; return 1 if a bar is missed."""
    parser = options(__doc__ or "")
    parser.add_argument("--only", default="small,generated,recovery", help="some of small,generated,recovery")
    parser.add_argument("--again", action="append", default=[], help="a contender whose rows are dropped first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options_ = parser.parse_args(arguments)
    ledger = Ledger(options_.out / "selection_quality.csv")
    for name in options_.again:
        ledger.forget(name)
    chosen = [part for part in parts(options_.quick) if part.name in options_.only.split(",")]
    run(chosen, ledger, options_.jobs)
    ledger.rewrite()

    judged = [judge(part, ledger) for part in chosen]
    found, lost = [v for vs, _ in judged for v in vs], [x for _, xs in judged for x in xs]
    write_csv(options_.out / "selection_verdicts.csv", [asdict(v) | {"outcome": v.outcome} for v in found])
    if lost:
        write_csv(options_.out / "selection_lost.csv", [asdict(x) | asdict(x.recipe) for x in lost])
    for part in chosen:
        if part.name == "generated":
            draw_ratios(part, ledger, options_.out / "selection_ratios.png")
        if part.name == "recovery":
            draw_recovery(part, ledger, options_.out / "selection_recovery.png")
    show(found, lost)
    return int(any(v.outcome == "MISSED" for v in found))


if __name__ == "__main__":
    sys.exit(main())
