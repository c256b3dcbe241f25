"""Whether bars are met: from the choices on every problem alone.

- small: on what share of problems our loss equals that of the best subset.
- generated: on what share it is above no other's; the worst ratio of the losses beside.
- recovery: at every n, how many more supports we find exactly than each other does; the least counts.

A problem on which we failed is lost to everyone. One on which another failed, or was not there, does not count for it.
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
    """Whether our loss is above theirs, beyond the last digits."""
    return ours.loss > theirs.loss * (1 + EQUAL)


def ratio(ours: Choice, theirs: Choice) -> float:
    """Our loss in units of theirs; 1 where both are 0."""
    if ours.loss == theirs.loss:
        return 1.0
    return ours.loss / theirs.loss if theirs.loss > 0 else math.inf


def compared(rounds: Iterable[Round], other: str) -> Iterator[tuple[Recipe, Choice, Choice]]:
    """The problems with an answer of the other, and one of ours or the reason why there is none."""
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
    """The share of problems on which our loss is above none of the others that gave an answer."""
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
    """At every n, ours less theirs in numbers of exact supports, over the problems both answered."""
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
    """Every problem on which another did better: by loss, or in a recovery by finding the truth where we did not."""
    found = []
    for other in others:
        for recipe, ours, theirs in compared(rounds, other):
            if part != "recovery" and above(ours, theirs):
                found.append(Lost(part, recipe.seed, other, recipe, ours.loss, theirs.loss, ours.note))
        for recipe, choices in rounds if part == "recovery" else ():
            if {OURS, other, TRUTH} <= choices.keys() and exact(choices, other) and not exact(choices, OURS):
                ours, truth = choices[OURS], choices[TRUTH]
                # Below the loss of the truth, ours is the better subset of the two, and still not the planted one.
                found.append(Lost(part, recipe.seed, other, recipe, ours.loss, truth.loss, ours.note))
    return found
