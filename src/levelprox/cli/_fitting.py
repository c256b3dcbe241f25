"""From files to a fitted model, its scores, and the files that are written."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli._data import (
    NameLookup,
    as_classes,
    errors_as_bad_data,
    infer_task_from_target,
    read_for_model,
    read_training,
    write_text,
)
from levelprox.cli._parsing import Task
from levelprox.cli._process import (
    CommandError,
    Exit,
    UsageError,
    message_of,
    print_error,
    print_notice,
    reading,
    writing,
)
from levelprox.cli._remote_data import RemoteData, chunked_data, cluster_data, connected
from levelprox.cli._settings import Backend, Checkpointing, Settings

if TYPE_CHECKING:
    from levelprox.io.data import Data, Reading


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, its data and scores."""

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
        None  # called after the model is saved; for a stream the number of features is known only then
    )
    target: str | None = None  # name of the column


@dataclass(frozen=True)
class Fitting:
    """Reads the data and fits the model."""

    settings: Settings
    state: Checkpointing
    how: Reading
    cv: int | None

    def run(self, path: Path, test: Path | None, place: Backend) -> Fitted:
        """Read the data and fit the model."""
        if place.stream is not None:
            return self._streamed(path, test, place.stream)
        if place.chunked:
            return self._distant(chunked_data(path, self.how), test)
        if place.dask is not None:
            with connected(place.dask, place.threads) as client:
                return self._distant(cluster_data(path, self.how, client), test)
        data = read_training(path, self.how)
        task = infer_task(self.settings, data.y)
        y = labels_of(data, task)
        known = NameLookup.of(data, y, by_index=place.device is not None)
        model = self.settings.estimator(task, known, cv=self.cv, device=place.device, **self.state.parameters())
        # Read before the fit, so that an unsuitable test file is found at once.
        tested = None if test is None else read_test(test, data, self.how)
        self._print_budget(model, y, data.weight, data.shape[1])
        seconds, interruption = self._fit(model, data.X, y, data.weight, **data.more)
        if data.preprocessing is not None:
            model.preprocessing_ = data.preprocessing
        one_based, target = self._one_based(path), data.target_name
        return Fitted(model, data, tested, path, data.shape, task, {}, seconds, one_based, interruption, target=target)

    def _distant(self, data: RemoteData, test: Path | None) -> Fitted:
        """Fit data that are not in memory."""
        task = choose_task(self.settings, *data.seen.infer_task())
        y = data.targets(task)
        labels = as_classes(data.seen.labels) if task is Task.CLASSIFICATION else None
        known = NameLookup(data.path, data.shape[1], data.names, labels, by_index=True)
        model = self.settings.estimator(task, known, cv=self.cv, **self.state.parameters())
        tested = None if test is None else read_like(test, data.names or data.shape[1], self.how)
        self._print_budget(model, data.seen.labels, data.seen.weights, data.shape[1])
        seconds, interruption = self._fit(model, data.X, y, data.weight)
        if data.names is not None:  # arrays have no column names
            import numpy as np

            model.feature_names_in_ = np.asarray(data.names, object)
        one_based = self._one_based(data.path)
        return Fitted(
            model, None, tested, data.path, data.shape, task, {}, seconds, one_based, interruption, target=data.target
        )

    def _fit(self, model: Any, X: Any, y: Any, weight: Any, **more: Any) -> tuple[float, KeyboardInterrupt | None]:
        """Fit the model; return the seconds, and the interrupt if one ended the fit with a model."""
        self.state.begin()
        began, interruption = time.monotonic(), None
        try:
            with errors_as_bad_data():
                model.fit(X, y, weight, **more)
        except KeyboardInterrupt as signal:
            if not hasattr(model, "coef_"):
                raise
            interruption = signal
        return time.monotonic() - began, interruption

    def _streamed(self, path: Path, test: Path | None, rows: int) -> Fitted:
        began = time.monotonic()
        model, shape, task = fit_stream(path, rows, self.settings, self.how, lambda y: infer_task(self.settings, y))
        seconds = time.monotonic() - began
        later = None if test is None else lambda: read_for_model(model, test, self.how, needs_target=True)
        return Fitted(model, None, None, path, shape, task, {}, seconds, self._one_based(path), read_test_later=later)

    def _print_budget(self, model: Any, y: Any, weight: Any, width: int) -> None:
        """Print the default budget if none is given; y may be the different labels, with their total weights."""
        given = self.settings.features, self.settings.level, self.settings.budget
        if any(one is not None for one in given) or self.settings.quiet:
            return
        if self.settings.chooses(self.cv):
            grid = ", ".join(f"{value:g}" for value in model.path_budgets(y.size, width))
            print_notice(f"levelprox: choosing from {grid} features (--features says otherwise)")
            return
        has_classes = hasattr(model, "decision_function")
        with suppress(ValueError):  # invalid weights, which the fit reports
            most = int(model.budget_for(y, weight))
            of_what = "samples of the rarest class" if has_classes else "samples"
            print_notice(
                f"levelprox: at most {most} feature{'s' if most > 1 else ''}: one for every ten {of_what}, at least 1 "
                "and at most 10 (--features says otherwise)"
            )

    def _one_based(self, path: Path) -> bool:
        from levelprox.io.data import format_of

        if path.is_dir() or path.suffix == ".npy":
            return False
        return (self.how.format or format_of(path)) == "libsvm" and not self.how.zero_based


def infer_task(settings: Settings, y: Any) -> Task:
    """Return the task from the options, or else from the target; then it is printed."""
    return choose_task(settings, *infer_task_from_target(y))


def choose_task(settings: Settings, likely: Task, why: str) -> Task:
    """Return the task from the options, or else the given one, and print the reason."""
    task = settings.known_task
    if task is not None:
        if task is Task.CLASSIFICATION and likely is Task.REGRESSION:
            warnings.warn(f"{why}: each of them is a class of its own", stacklevel=2)
        return task
    task = likely
    if not settings.quiet:
        print_notice(f"levelprox: {task}, because {why} (--task says otherwise)")
    return task


def labels_of(data: Data, task: Task) -> Any:
    """Return the target of a task: class labels or numbers."""
    assert data.y is not None  # the reader requires a target
    if task is Task.CLASSIFICATION:
        if data.more:
            raise UsageError(f"--{next(iter(data.more))} is for regression (--task regression)")
        return as_classes(data.y)
    if data.y.dtype.kind not in "iuf":
        raise CommandError(f"{data.path}: the target of a regression must hold numbers, not text", Exit.DATA)
    return data.y


def read_test(path: Path, data: Data, how: Reading) -> Data:
    """Read test data with the features and the preprocessing of the training data."""
    return read_like(path, data.feature_names or data.shape[1], replace(how, preprocessing=data.preprocessing))


def read_like(path: Path, features: Sequence[str] | int, how: Reading) -> Data:
    """Read data with these features, given by names or by their number."""
    from levelprox.io.data import read_data

    with reading(path):
        return read_data(path, features=features, how=how)


_MAX_LABELS = 1000  # of different labels that are kept


def fit_stream(
    path: Path, rows: int, settings: Settings, how: Reading, task_of: Callable[[Any], Task]
) -> tuple[Any, tuple[int, int], Task]:
    """Fit a LIBSVM file batch by batch; return the model, the shape of the data and the task.

    The file is read twice: first for its classes and number of features, which the first batch needs.
    """
    import numpy as np

    from levelprox.io.arrays import FileState
    from levelprox.io.data import format_of
    from levelprox.io.libsvm import libsvm_batches

    if (how.format or format_of(path)) != "libsvm":
        raise UsageError("--stream is for LIBSVM files")
    if settings.level is None and settings.features is None:
        raise UsageError("--stream needs --features")
    with reading(path):
        state = FileState(path)
        n, width, labels = _scan_labels(path, rows, how)
        task = task_of(labels)
        more = {"classes": as_classes(labels)} if task is Task.CLASSIFICATION else {}
        model = settings.estimator(task, NameLookup(path, width, None, more.get("classes")))
        with settings.progress("partial_fit", -(-n // rows), "batches") as advance:
            for X, y in libsvm_batches(path, rows, n_features=width, zero_based=how.zero_based):
                with errors_as_bad_data():
                    model.partial_fit(X, as_classes(y) if more else np.asarray(y, np.float64), **more)
                advance()
        state.check()
    return model, (n, width), task


def _scan_labels(path: Path, rows: int, how: Reading) -> tuple[int, int, Any]:
    """Return the number of rows and features, and the different labels (not all if they are too many for classes)."""
    import numpy as np

    from levelprox.io.libsvm import MAX_FEATURES, libsvm_batches

    n, width, labels = 0, 0, np.empty(0)
    for X, y in libsvm_batches(path, rows, n_features=MAX_FEATURES, zero_based=how.zero_based):
        n, width = n + y.size, max(width, int(X.indices.max(initial=-1)) + 1)
        if labels.size <= _MAX_LABELS:
            labels = np.union1d(labels, y)
    return n, width, labels


@dataclass(eq=False)
class Results:
    """Results of a fit: scores and written files. An error in one of them does not lose the others.

    Attributes
    ----------
    fitted : Fitted
        `score` fills in its scores.
    quiet : bool
    written : dict of str to Path
        Files that were written.
    errors : list of BaseException
        Errors so far, raised after the results have been printed.
    """

    fitted: Fitted
    quiet: bool
    written: dict[str, Path] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def write_model(self, out: Path | None, force: bool) -> None:
        """Write the model file, before anything else that takes time."""
        if out is None:
            return
        with self._collecting_errors(), writing(out):
            self.fitted.model.save(out, overwrite=force)
            self.written["model"] = out

    def score(self) -> None:
        """Compute the training and test scores; none if the fit was interrupted."""
        if self._stopped:
            return
        fitted = self.fitted
        with self._collecting_errors():
            test = fitted.test if fitted.read_test_later is None else fitted.read_test_later()
            for name, data in (("train", fitted.data), ("test", test)):
                if data is not None:
                    with errors_as_bad_data():
                        y = labels_of(data, fitted.task)
                        score = fitted.model.score(data.X, y, data.weight, **data.more)
                    fitted.scores[name] = float(score)

    def write_page(self, report: Path | None, force: bool) -> None:
        """Write the report page; none if the fit was interrupted."""
        fitted = self.fitted
        if report is None or fitted.data is None or self._stopped:
            return
        from levelprox.report.page import page

        with self._collecting_errors():
            X, y = fitted.data.X, labels_of(fitted.data, fitted.task)
            if not self.quiet:
                count = len(fitted.model.path_budgets(*fitted.shape))
                print_notice(f"levelprox: fitting {count} budgets for the page (--time-limit is for each fit)")
            test = as_test_tuple(fitted.test, fitted.task)
            text = page(
                fitted.model,
                X,
                y,
                test=test,
                sample_weight=fitted.data.weight,
                fit_params=fitted.data.more or None,
                test_params=None if fitted.test is None else fitted.test.more or None,
                title=fitted.path.name,
            )
            write_text(report, [text], force)
            self.written["report"] = report

    @property
    def _stopped(self) -> bool:
        interrupted = any(isinstance(one, KeyboardInterrupt) for one in self.errors)
        return interrupted or self.fitted.interruption is not None

    @contextmanager
    def _collecting_errors(self) -> Iterator[None]:
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            self.errors.append(error)

    def raise_errors(self) -> None:
        """Raise the first error; print the others."""
        for one in self.errors[1:]:
            print_error(message_of(one))
        if self.errors:
            raise self.errors[0]


def as_test_tuple(test: Any, task: Any) -> Any:
    """Return test data as `page` takes them: (X, y), or (X, y, weight)."""
    if test is None:
        return None
    pair = (test.X, labels_of(test, task))
    return pair if test.weight is None else (*pair, test.weight)
