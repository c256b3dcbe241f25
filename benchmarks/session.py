"""One run of the suite: write data sets once, run competitors, evaluate their results, write rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import processes
from benchmarks.datasets import Dataset, dataset, hand_over
from benchmarks.judge import Penalty, judge
from benchmarks.measurements import Measurements, Row
from benchmarks.processes import Answer, Ask

Judge = Callable[[Ask, Answer], Row]


@dataclass
class Session:
    """Output file, data folder and time limit of a run."""

    measurements: Measurements
    folder: Path  #: for the data
    limit: float = 300.0
    quick: bool = False
    without: frozenset[str] = frozenset()  #: competitors not to ask
    _last: Dataset | None = field(default=None, repr=False)

    def data(self, name: str) -> Dataset:
        """Return a data set; only the last one is kept in memory."""
        if self._last is None or self._last.name != name:
            self._last = None
            self._last = dataset(name)
            hand_over(self._last, self.folder)
        return self._last

    def measure(
        self,
        table: str,
        data: Dataset,
        peer: str,
        fits: dict[str, Ask],
        judged: Judge,
        label: str | None = None,
        cold: bool = False,
        repeats: int = 15,
    ) -> list[Row | None]:
        """Return the rows of one competitor, measured unless they exist; None for competitors that are left out.

        If later fits start from earlier ones, all are run again if one is missing.
        """
        label = label or peer
        missing = {case: ask for case, ask in fits.items() if not self.measurements.get(table, data.name, case, label)}
        if any(ask.get("warm_start") for ask in fits.values()) and missing:
            missing = fits
        if peer not in self.without:
            asks, place = list(missing.values()), hand_over(data, self.folder)
            with closing(processes.run(peer, place, asks, self.limit, most_repeats=repeats, cold=cold)) as answers:
                for (case, ask), answer in zip(missing.items(), answers, strict=True):
                    self._add(table, data, case, label, ask, answer, judged)
        return [self.measurements.get(table, data.name, case, label) for case in fits]

    def _add(self, table: str, data: Dataset, case: str, label: str, ask: Ask, answer: Answer, judged: Judge) -> None:
        if self.measurements.get(table, data.name, case, label):
            return  # run again only for what follows from it
        row: Row = {
            "table": table,
            "data": data.name,
            "case": case,
            "peer": label,
            "version": answer.version,
            "status": answer.status,
            "level": ask.get("level", ""),
            "n": data.X.shape[0],
            "d": data.X.shape[1],
            "kind": f"{'sparse' if data.sparse else 'dense'} {data.loss}",
            "note": answer.note,
            "passes": answer.extra.get("passes", ""),
            "bytes": answer.extra.get("bytes", ""),
        }
        if answer.seconds:
            row |= {"seconds": statistics.median(answer.seconds), "repeats": len(answer.seconds)}
        if answer.status == "ok":
            try:
                row |= judged(ask, answer)
            except (ValueError, ArithmeticError) as error:
                row |= {"status": "error", "note": f"judge: {error}"}
        self.measurements.add(row)
        tell(row)


def judged_fit(data: Dataset) -> Judge:
    """Return a judge of points without an intercept; the level is that of the request, or g of the point."""

    def judged(ask: Ask, answer: Answer) -> Row:
        assert answer.coefficients is not None
        asked = Penalty(**ask["penalty"]), ask.get("level"), ask.get("multiplier")
        figures = judge(data.X, data.b, data.loss, answer.coefficients, *asked)
        return {"loss": figures.loss, "g": figures.g, "nonzeros": figures.nonzeros, "kkt": figures.kkt}

    return judged


def tell(row: Row) -> None:
    """Print one line of progress."""
    figures = " ".join(
        f"{name}={row[name]:{spec}}"
        for name, spec in (("loss", ".6g"), ("nonzeros", "g"), ("kkt", ".1e"), ("seconds", ".4g"), ("passes", "g"))
        if row.get(name, "") != ""
    )
    print(
        f"{row['table']:12} {row['data']:18} {row['case']:10} {row['peer']:22} {row['status']:8}",
        figures,
        row["note"],
        flush=True,
    )
