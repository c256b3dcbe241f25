"""The tables, one file each; data, levels and numbers of features are fixed there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.session import Session
from benchmarks.tables import at_most_k, cold, convex_concave, counts, k_path, l1, paper, skglm_path


@dataclass(frozen=True)
class Table:
    """What to measure on which data."""

    measure: Callable[[Session, str], None]
    full: tuple[str, ...]
    quick: tuple[str, ...]
    stand_ins: tuple[str, ...]  #: where there are no real data


TABLES = {
    module.NAME: Table(module.measure, module.DATA, module.QUICK, module.STAND_INS)
    for module in (skglm_path, at_most_k, k_path, convex_concave, l1, paper, counts, cold)
}
