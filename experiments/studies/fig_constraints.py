"""Figure 1, and the appendix's pictures of z and of MFCQ: drawn from the library's functions, no data.

What the pictures are to show is also counted: that every φ is concave where ℓ1 is straight, that z is below what it is
said to bound, and at which levels a boundary point has no direction into the set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from experiments.constraints import (
    FUNCTIONS,
    LABELS,
    LEVELS,
    bounds,
    column,
    draw_bound,
    draw_bounds,
    draw_graphs,
    draw_regions,
    graphs,
    of,
    region,
    samples,
)
from experiments.reproduce.study import Claim, Outcome, Scope, Study
from experiments.reproduce.task import Row, Task

ROUNDING = 1e-12
PARTS = ("graphs", "bounds", "samples", "regions")


def run(part: str) -> Iterator[Row]:
    """Return the rows of one part of the pictures."""
    if part == "graphs":
        yield from ({"part": part, **row} for row in graphs())
    elif part == "regions":
        for level in LEVELS:
            yield from ({"part": part, "level": level, **row} for row in region(FUNCTIONS["SCAD"], level))
    else:
        of_one = {"bounds": bounds, "samples": samples}[part]
        for name, constraint in FUNCTIONS.items():
            yield from ({"part": part, "function": name, **row} for row in of_one(constraint))


class FigConstraints(Study):
    """What the constraints look like."""

    name: ClassVar[str] = "fig-constraints"
    title: ClassVar[str] = "Figure 1: the constraint functions; and the appendix's z and MFCQ"

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
        return [Task(self.name, (part,), f"{__name__}:run", {"part": part}) for part in PARTS]

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        parts = {part: found for part in PARTS if (found := of(rows, part=part))}
        claims: list[Claim] = []
        if "graphs" in parts:
            claims.append(concave(parts["graphs"]))
        if "samples" in parts:
            claims.extend(bounded(parts["samples"]))
        if "bounds" in parts:
            claims.append(zero_at_the_cap(of(parts["bounds"], function="SCAD")))
        if "regions" in parts:
            claims.append(degenerate(parts["regions"]))
        return Outcome(
            "Computed from levelprox.constraints and levelprox.theory; the same in quick and full runs.",
            "Figure 1 shows the functions of Table 2 and ℓ1. In the appendix: z for SCAD with λ = 1, θ = 5, and "
            "{g ≤ η} in the plane at η = 3, 2.8 and 3.2.",
            figures=list(drawn(parts)),
            claims=claims,
            notes=[
                "The paper gives no parameters for Figure 1 but ε = 0.1: here they are such that all functions fit in "
                "one picture. Its (|x| + ε)^p is drawn less ε^p, as the library has it: φ(0) = 0.",
                "The paper proves z for MCP and SCAD and says the rest is similar; all six are drawn, and for MCP and "
                "SCAD the tight z beside the paper's.",
            ],
        )


def drawn(parts: dict[str, Sequence[Row]]) -> Iterator[tuple[str, Figure, str]]:
    """Return the figures that can be drawn of these parts."""
    if "graphs" in parts:
        yield "fig-constraints.png", draw_graphs(parts["graphs"]), "Figure 1: φ(|x|) of Table 2, and ℓ1"
    if "bounds" in parts:
        yield "fig-constraints-z-scad.png", draw_bound(parts["bounds"], "SCAD"), "z for SCAD, up to its cap"
    if "bounds" in parts and "samples" in parts:
        figure = draw_bounds(parts["bounds"], parts["samples"])
        yield "fig-constraints-z.png", figure, "z of all six functions, below what was sampled"
    if "regions" in parts:
        yield "fig-constraints-mfcq.png", draw_regions(parts["regions"]), "{g ≤ η} for SCAD with λ = 1, θ = 5, cap 3"


def concave(rows: Sequence[Row]) -> Claim:
    """Whether each φ(|x|) is 0 at 0, even, and bends down on either side."""
    x = column(rows, "x")
    bend = {}
    for name in FUNCTIONS:
        phi = column(rows, name)
        sound = np.all(phi[x == 0] == 0) and np.array_equal(phi, phi[::-1])
        bend[name] = float(np.diff(phi[x >= 0], 2).max()) if sound else np.inf
    worst = max(bend, key=lambda name: bend[name])
    return Claim(
        "Every function of Table 2 is λ|x| less a convex h: it bends down on either side of 0, where ℓ1 is straight",
        f"largest second difference {bend[worst]:.1e} ({LABELS[worst]}), over {np.count_nonzero(x >= 0)} points",
        bend[worst] <= ROUNDING,
    )


def bounded(rows: Sequence[Row]) -> Iterator[Claim]:
    """Whether z is below what it bounds, for each function."""
    for name in FUNCTIONS:
        here = of(rows, function=name)
        if not here:
            continue
        kept, tight, paper = (column(here, which) for which in ("kept", "z", "z_paper"))
        slack, excess = float((kept - tight).min()), float(np.nanmax(paper - tight, initial=-np.inf))
        beside = f"; the paper's z is {'nowhere' if excess <= ROUNDING else 'SOMEWHERE'} above the tight one"
        yield Claim(
            f"{LABELS[name]}: Σ φ'(|x_i|)|x_i| ≥ z(g(x))",
            f"least Σ φ'|x| − z: {slack:.1e} over {len(here)} points" + beside * bool(np.isfinite(excess)),
            slack >= -ROUNDING and excess <= ROUNDING,
        )


def zero_at_the_cap(rows: Sequence[Row]) -> Claim:
    """Whether z of SCAD is 0 at whole multiples of the cap and nowhere else."""
    cap = FUNCTIONS["SCAD"].cap
    alpha, z = column(rows, "alpha"), column(rows, "z_paper")
    at_caps = np.isin(alpha, cap * np.arange(3))
    least = float(z[~at_caps].min())
    return Claim(
        "z for SCAD is 0 at 0 and at the cap, and positive between",
        f"largest z at 0, cap and 2 cap: {z[at_caps].max():.1e}; least elsewhere: {least:.1e}",
        bool(np.all(z[at_caps] == 0)) and least > 0,
    )


def degenerate(rows: Sequence[Row]) -> Claim:
    """Whether a boundary point without room is found at η = cap, and at no other level."""
    cap, stuck = FUNCTIONS["SCAD"].cap, {}
    for level in dict.fromkeys(row["level"] for row in rows):
        stuck[level] = int(np.count_nonzero(column(of(rows, level=level), "room") == 0))
    return Claim(
        "MFCQ fails beyond the threshold at η = 3, the cap; at η = 2.8 and 3.2 it does not",
        "boundary points without a direction into the set: "
        + ", ".join(f"{count} at η = {level:g}" for level, count in stuck.items()),
        all((count > 0) == (level == cap) for level, count in stuck.items()),
    )
