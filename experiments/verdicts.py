"""Whether bars are met: from the choices on every problem alone.

- small: the share of problems on which the loss of levelprox equals that of the best subset.
- generated: the share on which it is above no other loss, and the worst ratio of the losses.
- recovery: at every n, how many more supports levelprox finds exactly than each other program; the smallest difference
counts.

A problem on which levelprox fails is lost to every program. One on which another program fails, or is not installed,
does not count for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.ledger import Choice
from experiments.planted import Recipe

OURS, BEST, TRUTH = "levelprox", "exhaustive", "truth"
EQUAL = 1e-8  # relative: further apart, two losses are not the same
SHARE = 0.95

#: The choices of all contenders on one problem.
Round = tuple[Recipe, Mapping[str, Choice]]


@dataclass(frozen=True)
class Verdict:
    """A bar, what was measured, and of how many problems."""

    bar_name: str
    value: float
    bar: float
    problems: int
    detail: str

    @property
    def outcome(self) -> str:
        """In a word."""
        if self.problems == 0:
            return "not measured"
        return "met" if self.value >= self.bar else "MISSED"


@dataclass(frozen=True)
class Lost:
    """A problem on which another did better."""

    part: str
    seed: int
    to: str
    recipe: Recipe
    ours: float
    theirs: float
    note: str


def above(ours: Choice, theirs: Choice) -> bool:
    """Return whether the loss of levelprox is above the other, beyond the last digits."""
    return ours.loss > theirs.loss * (1 + EQUAL)


def ratio(ours: Choice, theirs: Choice) -> float:
    """Return the ratio of the loss of levelprox to the other; 1 if both are 0."""
    if ours.loss == theirs.loss:
        return 1.0
    return ours.loss / theirs.loss if theirs.loss > 0 else math.inf


def compared(rounds: Iterable[Round], other: str) -> Iterator[tuple[Recipe, Choice, Choice]]:
    """Return the problems that the other program solved, with the result of levelprox or the reason for its failure."""
    for recipe, choices in rounds:
        if OURS in choices and other in choices and math.isfinite(choices[other].loss):
            yield recipe, choices[OURS], choices[other]


def small(rounds: Sequence[Round]) -> list[Verdict]:
    """Against exhaustive search, by loss."""
    return [
        _share(f"small, {loss}: equal to the best subset", [r for r in rounds if r[0].loss == loss], [BEST])
        for loss in ("squared", "logistic")
    ]


def generated(rounds: Sequence[Round], others: Sequence[str]) -> list[Verdict]:
    """Against all others together, then one by one."""
    together = _share("generated: above none of the others", rounds, others)
    return [together, *(_share(f"generated: not above {other}", rounds, [other]) for other in others)]


def _share(bar_name: str, rounds: Sequence[Round], others: Sequence[str]) -> Verdict:
    """Return the share of problems on which the loss of levelprox is above none of the others."""
    lost: dict[int, bool] = {}
    below, worst = 0, 1.0
    for other in others:
        for recipe, ours, theirs in compared(rounds, other):
            lost[recipe.seed] = lost.get(recipe.seed, False) or above(ours, theirs)
            below += above(theirs, ours)
            worst = max(worst, ratio(ours, theirs))
    value = 1 - sum(lost.values()) / len(lost) if lost else math.nan
    detail = f"{sum(lost.values())} lost, strictly below {below} times, worst ratio {worst:.6g}"
    return Verdict(bar_name, value, SHARE, len(lost), detail)


def recovery(rounds: Sequence[Round], others: Sequence[str]) -> list[Verdict]:
    """Return, for every n, the difference in numbers of exact supports, over the problems that both solved."""
    verdicts = []
    for other in others:
        leads: dict[int, int] = {}
        problems = 0
        for recipe, choices in rounds:
            if {OURS, other, TRUTH} <= choices.keys() and not choices[other].note:
                problems += 1
                leads[recipe.n] = leads.get(recipe.n, 0) + exact(choices, OURS) - exact(choices, other)
        shown = " ".join(f"{n}: {lead:+d}" for n, lead in sorted(leads.items()))
        least = min(leads.values(), default=math.nan)
        verdicts.append(Verdict(f"recovery: no lower than {other} at any n", least, 0, problems, shown))
    return verdicts


def exact(choices: Mapping[str, Choice], who: str) -> bool:
    """Whether the chosen features are the planted ones."""
    return not choices[who].note and choices[who].features == choices[TRUTH].features


def losses(part: str, rounds: Sequence[Round], others: Sequence[str]) -> list[Lost]:
    """Return the problems on which another program is better: by loss, or by finding the planted features."""
    found = []
    for other in others:
        for recipe, ours, theirs in compared(rounds, other):
            if part != "recovery" and above(ours, theirs):
                found.append(Lost(part, recipe.seed, other, recipe, ours.loss, theirs.loss, ours.note))
        for recipe, choices in rounds if part == "recovery" else ():
            if {OURS, other, TRUTH} <= choices.keys() and exact(choices, other) and not exact(choices, OURS):
                ours, truth = choices[OURS], choices[TRUTH]
                # With a loss below that of the planted features, the subset of levelprox is better, and still not the
                # planted one.
                found.append(Lost(part, recipe.seed, other, recipe, ours.loss, truth.loss, ours.note))
    return found
