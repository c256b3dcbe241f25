"""Pieces of work done one after another, in an order that their results decide; none that is known is done again.

A search is a chain of such pieces. To go on with one that was broken off, it is begun anew, and whatever was found out
before is taken from its journal: the chain is the same, and only where the journal ends there is work to do. What the
pieces leave behind besides their results, in memory that they share, is put back there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from levelprox.driver.checkpoint import Journal

Value = TypeVar("Value")


class Pieces(Protocol):
    """How pieces of work are done."""

    def once(self, work: Callable[[], Value]) -> Value:
        """The result of a piece."""

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        """Where a step, taken again and again, has come to when it says that it was the last."""


class Directly:
    """Pieces that are done, and that is all."""

    def once(self, work: Callable[[], Value]) -> Value:
        return work()

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        last = False
        while not last:
            at, last = step(at)
        return at


class Remembered:
    """Pieces whose results go to a journal.

    Parameters
    ----------
    journal : Journal
    left_behind : callable
        What pieces have left behind besides their results, as plain data; None where a limit has cut the last one
        short, which is then no part of what there is to go on from.
    put_back : callable
        Called with that after the last piece that is known.
    """

    def __init__(self, journal: Journal, left_behind: Callable[[], Any], put_back: Callable[[Any], None]) -> None:
        self.journal, self.left_behind, self.put_back = journal, left_behind, put_back
        known = journal.state or {"results": (), "behind": None}
        self.results: list[tuple[Any, bool]] = list(known["results"])  # and whether it is the last of its repetitions
        self.behind: Any = known["behind"]
        self.place = 0

    def once(self, work: Callable[[], Value]) -> Value:
        return self.repeated(lambda _: (work(), True), None)  # type: ignore[return-value]  # work has no need of it

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        last = False
        if self.place < len(self.results):
            at, last = self.results[self.place]
            if self.place == len(self.results) - 1:
                self.put_back(self.behind)
        while not last:
            at, last = step(at)
            self.results[self.place :] = [(at, last)]
            behind = self.left_behind()
            if behind is not None:
                self.journal.keep({"results": tuple(self.results), "behind": behind})
        self.place += 1
        return at


def pieces_of(journal: Journal, left_behind: Callable[[], Any], put_back: Callable[[Any], None]) -> Pieces:
    """Pieces that are remembered, where there is anybody to remember them."""
    return Directly() if journal.idle else Remembered(journal, left_behind, put_back)
