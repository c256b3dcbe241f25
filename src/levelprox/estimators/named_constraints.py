"""Constraints by name, in the units of the data: what a user means by constraint="mcp", level=5.5.

A named constraint is drawn so that a coefficient of `threshold` (of scale_ · coef_) costs about one feature:

    mcp, scad      cost 1 from the threshold on
    exp            1 − exp(−3 t/threshold): 0.95 at the threshold, at most 1
    negative_lp    1 − 1/(1 + 9 t/threshold): 0.9 at the threshold, at most 1
    log            log(1 + 10 t/threshold)/log(11): 1 at the threshold, growing ever more slowly
    lp             (t/threshold + 0.01)^½ − 0.1: 0.9 at the threshold, growing like √t
    l1             t itself: a level is a bound on Σ |scale_ · coef_|
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from levelprox._validation import option
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp, Widened
from levelprox.exceptions import InvalidInputError

#: Of the unit of the coefficients: a coefficient this large costs one feature.
THRESHOLD = 0.1

NAMED_CONSTRAINTS: dict[str, Callable[[float], Constraint]] = {
    "mcp": MCP.from_threshold,
    "scad": SCAD.from_threshold,
    "exp": lambda threshold: Exp(3 / threshold),
    "negative_lp": lambda threshold: NegativeLp(-1.0, 9 / threshold),
    "log": lambda threshold: Widened(Log(10.0), threshold),
    "lp": lambda threshold: Widened(Lp(0.5, 0.01), threshold),
    "l1": lambda threshold: L1(),
}


def constraint_of(constraint: object, unit: float) -> Constraint:
    """The constraint asked for; a name is drawn with the threshold 0.1 · unit."""
    if isinstance(constraint, Constraint):
        return constraint
    if isinstance(constraint, str) and option(constraint) in NAMED_CONSTRAINTS:
        return NAMED_CONSTRAINTS[option(constraint)](THRESHOLD * unit)
    if isinstance(constraint, type):
        raise InvalidInputError(f"constraint is the class {constraint.__name__}; did you forget ()?")
    near = get_close_matches(str(option(constraint)), NAMED_CONSTRAINTS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    names = ", ".join(NAMED_CONSTRAINTS)
    raise InvalidInputError(f"constraint must be a Constraint or one of {names}, got {constraint!r}{hint}")
