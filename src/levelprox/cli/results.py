"""What comes of a fit: the model's file, its scores, a page. Whatever fails on the way, the rest is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelprox.cli import files, inputs
from levelprox.cli.fitting import Fitted, labels_of
from levelprox.cli.streams import message_of, say, say_error


@dataclass(eq=False)
class Results:
    """What comes of a fit.

    Attributes
    ----------
    fitted : Fitted
        Its scores are filled in.
    quiet : bool
    written : dict of str to Path
        The files that were written.
    troubles : list of BaseException
        What went wrong; to be raised once the results have been shown.
    """

    fitted: Fitted
    quiet: bool
    written: dict[str, Path] = field(default_factory=dict)
    troubles: list[BaseException] = field(default_factory=list)

    def write_model(self, out: Path | None, force: bool) -> None:
        """Before anything else that takes time, or may be interrupted."""
        if out is None:
            return
        with self._noting(), files.writing(out):
            self.fitted.model.save(out, overwrite=force)
            self.written["model"] = out

    def judge(self) -> None:
        """The scores on the data of the fit and of the test; none of a fit that was broken off."""
        if self._stopped:
            return
        fitted = self.fitted
        with self._noting():
            test = fitted.test if fitted.read_test_later is None else fitted.read_test_later()
            for name, data in (("train", fitted.data), ("test", test)):
                if data is not None:
                    with inputs.judging_data():
                        y = labels_of(data, fitted.task)
                        score = fitted.model.score(data.X, y, data.weight, **data.more)
                    fitted.scores[name] = float(score)

    def write_page(self, report: Path | None, force: bool) -> None:
        """A page; of a fit that was broken off, there is no time for it."""
        fitted = self.fitted
        if report is None or fitted.data is None or self._stopped:
            return
        from levelprox.report.page import page

        with self._noting():
            X, y = fitted.data.X, labels_of(fitted.data, fitted.task)
            if not self.quiet:
                count = len(fitted.model._budgets(*fitted.shape))
                say(f"levelprox: fitting {count} budgets for the page (--time-limit is for each fit)")
            judged = judged_by(fitted.test, fitted.task)
            text = page(
                fitted.model,
                X,
                y,
                test=judged,
                sample_weight=fitted.data.weight,
                fit_params=fitted.data.more or None,
                test_params=None if fitted.test is None else fitted.test.more or None,
                title=fitted.path.name,
            )
            files.write_text(report, [text], force)
            self.written["report"] = report

    @property
    def _stopped(self) -> bool:
        interrupted = any(isinstance(one, KeyboardInterrupt) for one in self.troubles)
        return interrupted or self.fitted.interruption is not None

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except (Exception, KeyboardInterrupt) as trouble:
            self.troubles.append(trouble)

    def raise_troubles(self) -> None:
        """Raise the first thing that went wrong; others are said."""
        for one in self.troubles[1:]:
            say_error(message_of(one))
        if self.troubles:
            raise self.troubles[0]


def judged_by(test: Any, task: Any) -> Any:
    """Test data as a page takes them: with their weights, where there are some."""
    if test is None:
        return None
    judged = (test.X, labels_of(test, task))
    return judged if test.weight is None else (*judged, test.weight)
