"""From files to a fitted model: read, guess what is to be learnt, fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli import files, inputs
from levelprox.cli.exits import CommandError, Exit, UsageError
from levelprox.cli.naming import Known
from levelprox.cli.options import Task
from levelprox.cli.place import Place
from levelprox.cli.settings import Checkpointing, Settings, as_classes, guessed_task
from levelprox.cli.streams import say

if TYPE_CHECKING:
    from levelprox.cli.distant import Distant
    from levelprox.io.data import Data, Reading


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, and how it came about."""

    model: Any
    data: Data | None
    test: Data | None
    path: Path
    shape: tuple[int, int]
    task: Task
    scores: dict[str, float]
    seconds: float
    one_based: bool
    interruption: KeyboardInterrupt | None = None
    read_test_later: Callable[[], Data] | None = (
        None  # once the model is safe: of a stream the width is known only then
    )
    target: str | None = None  # the column


@dataclass(frozen=True)
class Fitting:
    """From files to a fitted model."""

    settings: Settings
    state: Checkpointing
    how: Reading
    cv: int | None

    def run(self, path: Path, test: Path | None, place: Place) -> Fitted:
        """Read, and fit."""
        if place.stream is not None:
            return self._streamed(path, test, place.stream)
        if place.chunked:
            from levelprox.cli.distant import in_turn

            return self._distant(in_turn(path, self.how), test)
        if place.dask is not None:
            from levelprox.cli.cluster import connected
            from levelprox.cli.distant import on_cluster

            with connected(place.dask, place.threads) as client:
                return self._distant(on_cluster(path, self.how, client), test)
        data = inputs.read_training(path, self.how)
        task = guessing(self.settings, data.y)
        y = labels_of(data, task)
        known = Known.of(data, y, by_index=place.device is not None)
        model = self.settings.estimator(task, known, cv=self.cv, device=place.device, **self.state.parameters())
        # Before the fit: a file that does not go with this one is not found out only after hours.
        tested = None if test is None else read_test(test, data, self.how)
        self._say_budget(model, y, data.weight, data.shape[1])
        seconds, interruption = self._fit(model, data.X, y, data.weight, **data.more)
        if data.preprocessing is not None:
            model.preprocessing_ = data.preprocessing
        one_based, target = self._one_based(path), data.target_name
        return Fitted(model, data, tested, path, data.shape, task, {}, seconds, one_based, interruption, target=target)

    def _distant(self, data: Distant, test: Path | None) -> Fitted:
        """The same of data that are not in memory."""
        task = decided(self.settings, *data.seen.guess())
        y = data.targets(task)
        labels = as_classes(data.seen.labels) if task is Task.CLASSIFICATION else None
        known = Known(data.path, data.shape[1], data.names, labels, by_index=True)
        model = self.settings.estimator(task, known, cv=self.cv, **self.state.parameters())
        tested = None if test is None else read_like(test, data.names or data.shape[1], self.how)
        self._say_budget(model, data.seen.labels, data.seen.weights, data.shape[1])
        seconds, interruption = self._fit(model, data.X, y, data.weight)
        if data.names is not None:  # arrays have none
            import numpy as np

            model.feature_names_in_ = np.asarray(data.names, object)
        one_based = self._one_based(data.path)
        return Fitted(
            model, None, tested, data.path, data.shape, task, {}, seconds, one_based, interruption, target=data.target
        )

    def _fit(self, model: Any, X: Any, y: Any, weight: Any, **more: Any) -> tuple[float, KeyboardInterrupt | None]:
        """How long it took, and what broke it off, where there is a model all the same."""
        self.state.begin()
        began, interruption = time.monotonic(), None
        try:
            with inputs.judging_data():
                model.fit(X, y, weight, **more)
        except KeyboardInterrupt as signal:
            if not hasattr(model, "coef_"):
                raise
            interruption = signal
        return time.monotonic() - began, interruption

    def _streamed(self, path: Path, test: Path | None, rows: int) -> Fitted:
        from levelprox.cli.streaming import streamed

        began = time.monotonic()
        model, shape, task = streamed(path, rows, self.settings, self.how, lambda y: guessing(self.settings, y))
        seconds = time.monotonic() - began
        later = None if test is None else lambda: inputs.read_for(model, test, self.how, needs_target=True)
        return Fitted(model, None, None, path, shape, task, {}, seconds, self._one_based(path), read_test_later=later)

    def _say_budget(self, model: Any, y: Any, weight: Any, width: int) -> None:
        """Which budget is taken where none is given, and why; y may be the labels, if the weights are theirs."""
        given = self.settings.features, self.settings.level, self.settings.budget
        if any(one is not None for one in given) or self.settings.quiet:
            return
        if self.settings.chooses(self.cv):
            grid = ", ".join(f"{value:g}" for value in dict.fromkeys(one.value for one in model._grid(y.size, width)))
            say(f"levelprox: choosing from {grid} features (--features says otherwise)")
            return
        from levelprox.estimators.classification import rarest

        has_classes = hasattr(model, "decision_function")
        with suppress(ValueError):  # weights that cannot be used, of which the fit will tell
            counted = y.size if weight is None else weight.sum()
            most = int(model._budget(rarest(y, weight) if has_classes else float(counted)).value)
            of_what = "samples of the rarest class" if has_classes else "samples"
            say(
                f"levelprox: at most {most} feature{'s' if most > 1 else ''}: one for every ten {of_what}, at least 1 "
                "and at most 10 (--features says otherwise)"
            )

    def _one_based(self, path: Path) -> bool:
        from levelprox.io.data import format_of

        if path.is_dir() or path.suffix == ".npy":
            return False
        return (self.how.format or format_of(path)) == "libsvm" and not self.how.zero_based


def guessing(settings: Settings, y: Any) -> Task:
    """What is to be learnt: as was said, or as the loss or the target let one guess, which is said."""
    return decided(settings, *guessed_task(y))


def decided(settings: Settings, likely: Task, why: str) -> Task:
    """The same where it is known what is likely, and why."""
    task = settings.known_task
    if task is not None:
        if task is Task.CLASSIFICATION and likely is Task.REGRESSION:
            warnings.warn(f"{why}: each of them is a class of its own", stacklevel=2)
        return task
    task = likely
    if not settings.quiet:
        say(f"levelprox: {task}, because {why} (--task says otherwise)")
    return task


def labels_of(data: Data, task: Task) -> Any:
    """The target: classes, or numbers."""
    assert data.y is not None  # it was asked for
    if task is Task.CLASSIFICATION:
        if data.more:
            raise UsageError(f"--{next(iter(data.more))} is for regression (--task regression)")
        return as_classes(data.y)
    if data.y.dtype.kind not in "iuf":
        raise CommandError(f"{data.path}: the target of a regression must hold numbers, not words", Exit.DATA)
    return data.y


def read_test(path: Path, data: Data, how: Reading) -> Data:
    """Data with the features of those of the fit, made as they were."""
    return read_like(path, data.feature_names or data.shape[1], replace(how, preprocessing=data.preprocessing))


def read_like(path: Path, features: Sequence[str] | int, how: Reading) -> Data:
    """Data with these features: their names, or how many there are."""
    from levelprox.io.data import read_data

    with files.reading(path):
        return read_data(path, features=features, how=how)
