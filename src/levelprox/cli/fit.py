"""levelprox fit: a model from a file of data."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelprox.cli import files, inputs, options, threads
from levelprox.cli.exits import CommandError, Exit, UsageError, of_status
from levelprox.cli.options import LIMITS, MODEL, OUTPUT, Task
from levelprox.cli.settings import Checkpointing, Settings, as_classes, guessed_task, task_of_loss
from levelprox.cli.streams import say, warnings_in_lines

if TYPE_CHECKING:
    from levelprox.io.data import Data, Reading


def fit(
    data: options.DataFile,
    target: options.Target = None,
    features: options.Features = None,
    level: options.Level = None,
    cv: Annotated[
        int | None, typer.Option(min=2, metavar="FOLDS", rich_help_panel=MODEL, help="Choose the budget by folds.")
    ] = None,
    loss: options.LossOption = None,
    constraint: options.ConstraintOption = None,
    task: options.TaskOption = None,
    standardize: options.Standardize = True,
    intercept: options.Intercept = True,
    seed: options.Seed = None,
    drop: options.Drop = None,
    weight: options.Weight = None,
    test: options.Test = None,
    format: options.FileFormat = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    zero_based: options.ZeroBased = False,
    stream: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="ROWS",
            rich_help_panel=options.DATA,
            help="Take in a LIBSVM file in batches of so many rows, in bounded memory, by partial_fit.",
        ),
    ] = None,
    tol: options.Tol = 1e-6,
    max_iter: options.MaxIter = 1000,
    time_limit: options.TimeLimit = None,
    threads_: options.Threads = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=LIMITS, help="Keep the state of the fit there, to go on from."),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", rich_help_panel=LIMITS, help="How often; 0 after every step."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", rich_help_panel=LIMITS, help="Go on from the checkpoint, if it is there.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL.levelprox", rich_help_panel=OUTPUT, help="Write the model there.")
    ] = None,
    report: options.Report = None,
    json: options.Json = False,
    force: options.Force = False,
    accept_inaccurate: options.Accept = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Fit a sparse model, and show what is proved of it.

    [bold]levelprox fit train.csv --target price --features 5 --out model.levelprox[/bold]

    At most K features (--features), or g(x) ≤ η (--level). With --cv the budget is chosen from several. Every figure is
    recomputed from the data. Ctrl-C keeps the best model so far.
    """
    settings = Settings.of(
        features,
        level,
        loss,
        constraint,
        task=task,
        standardize=standardize,
        intercept=intercept,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        seed=seed,
        quiet=quiet,
        verbose=verbose,
    )
    state = Checkpointing(checkpoint, checkpoint_every, resume)
    _check(settings, cv, stream, state, report)
    for path in filter(None, (data, test)):
        files.check_input(path)
    kept = None if resume else checkpoint
    files.check_outputs((out, report), (data, test), force)
    if kept is not None and kept.exists() and not force:
        raise CommandError(
            f"{kept} is there already; --resume goes on from it, --force begins afresh", Exit.CANNOT_CREATE
        )
    files.check_outputs((checkpoint,), (data, test, out, report), True)
    how = inputs.how_to_read(target, drop, weight, format, no_header, separator, zero_based)
    with warnings_in_lines(quiet) as warned, threads.at_most(threads_):
        fitted = _Fitting(settings, state, how, cv).run(data, test, stream)
        outputs = _write(fitted, out, report, force)
        if json:
            _print_json(fitted, outputs, warned)
        else:
            _print(fitted)
    if not quiet:
        for path in outputs.values():
            say(f"levelprox: wrote {path}")
    if fitted.interruption is not None:
        if checkpoint is not None:
            say(f"levelprox: to go on: {_again()}")
        raise fitted.interruption
    return of_status(int(getattr(fitted.model, "status_", 0)), accept_inaccurate)


def _check(settings: Settings, cv: int | None, stream: int | None, state: Checkpointing, report: Path | None) -> None:
    """Options that do not go together."""
    if cv is None and not settings.single:
        raise UsageError("several budgets are for --cv, which chooses, or for levelprox path, which shows all")
    if stream is not None and (cv is not None or state.path is not None or report is not None):
        raise UsageError("--stream sees the data once: it goes with neither --cv, --checkpoint nor --report")


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A model, and how it came about."""

    model: Any
    data: Data | None
    test: Data | None
    path: Path
    shape: tuple[int, int]
    task: Task
    scores: dict[str, float]
    seconds: float
    interruption: KeyboardInterrupt | None = None


@dataclass(frozen=True)
class _Fitting:
    """From files to a fitted model."""

    settings: Settings
    state: Checkpointing
    how: Reading
    cv: int | None

    def run(self, path: Path, test: Path | None, stream: int | None) -> _Fitted:
        """Read, fit, and judge."""
        if stream is not None:
            return self._streamed(path, test, stream)
        data = inputs.read_training(path, self.how)
        task = guessing(self.settings, data.y)
        y = labels_of(data, task)
        model = self.settings.estimator(task, cv=self.cv, **self.state.parameters())
        # Before the fit: a file that does not go with this one is not found out only after hours.
        tested = None if test is None else read_test(test, data, self.how)
        began, interruption = time.monotonic(), None
        try:
            with inputs.judging_data():
                model.fit(data.X, y, data.weight)
        except KeyboardInterrupt as signal:
            if not hasattr(model, "coef_"):
                raise
            interruption = signal
        seconds = time.monotonic() - began
        scores = {} if interruption else self._scores(model, task, {"train": data, "test": tested})
        return _Fitted(model, data, tested, path, data.shape, task, scores, seconds, interruption)

    @staticmethod
    def _scores(model: Any, task: Task, parts: dict[str, Data | None]) -> dict[str, float]:
        scores = {}
        for name, data in parts.items():
            if data is not None:
                with inputs.judging_data():
                    scores[name] = float(model.score(data.X, labels_of(data, task), data.weight))
        return scores

    def _streamed(self, path: Path, test: Path | None, rows: int) -> _Fitted:
        from levelprox.cli.streaming import streamed

        began = time.monotonic()
        model, shape, task = streamed(path, rows, self.settings, self.how, lambda y: guessing(self.settings, y))
        seconds = time.monotonic() - began
        tested = None if test is None else inputs.read_for(model, test, self.how, needs_target=True)
        return _Fitted(model, None, tested, path, shape, task, self._scores(model, task, {"test": tested}), seconds)


def guessing(settings: Settings, y: Any) -> Task:
    """What is to be learnt: as was said, or as the loss or the target let one guess, which is said."""
    if settings.task is not None:
        return settings.task
    if settings.loss is not None:
        return task_of_loss(settings.loss)
    task, why = guessed_task(y)
    if not settings.quiet:
        say(f"levelprox: {task}, because {why} (--task says otherwise)")
    return task


def labels_of(data: Data, task: Task) -> Any:
    """The target: classes, or numbers."""
    assert data.y is not None  # it was asked for
    if task is Task.CLASSIFICATION:
        return as_classes(data.y)
    if data.y.dtype.kind not in "iuf":
        raise CommandError(f"{data.path}: the target of a regression must hold numbers, not words", Exit.DATA)
    return data.y


def read_test(path: Path, data: Data, how: Reading) -> Data:
    """Data with the features of those of the fit."""
    from levelprox.io.data import read_data

    with files.reading(path):
        return read_data(path, features=data.feature_names or data.shape[1], how=how)


def _write(fitted: _Fitted, out: Path | None, report: Path | None, force: bool) -> dict[str, Path]:
    """The files asked for; of a fit that was broken off, there is no time for a page."""
    written = {}
    if out is not None:
        with files.writing(out):
            fitted.model.save(out, overwrite=force)
        written["model"] = out
    if report is not None and fitted.data is not None and fitted.interruption is None:
        from levelprox.report.page import page

        data, test = fitted.data, fitted.test
        judged = None if test is None else (test.X, labels_of(test, fitted.task))
        y = labels_of(data, fitted.task)
        text = page(fitted.model, data.X, y, test=judged, sample_weight=data.weight, title=fitted.path.name)
        files.write_text(report, [text], force)
        written["report"] = report
    return written


def _print(fitted: _Fitted) -> None:
    from levelprox.cli.output import print_line
    from levelprox.cli.summary import print_model, score_name

    n, d = fitted.shape
    print_line(f"{type(fitted.model).__name__} on {fitted.path}: {n} samples, {d} features")
    name = score_name(fitted.model)
    scores: list[tuple[str, object]] = [(f"{name}, {part}", f"{score:.6g}") for part, score in fitted.scores.items()]
    print_model(fitted.model, [*scores, ("time", f"{fitted.seconds:.2f} s")])


def _print_json(fitted: _Fitted, outputs: dict[str, Path], warned: list[str]) -> None:
    from levelprox import __version__
    from levelprox.cli.output import print_json
    from levelprox.cli.summary import as_document, score_name

    n, d = fitted.shape
    print_json(
        {
            "levelprox": __version__,
            "command": "fit",
            **as_document(fitted.model),
            "task": fitted.task,
            "data": {
                "path": fitted.path,
                "n_samples": n,
                "n_features": d,
                "n_nonzero": None if fitted.data is None else fitted.data.n_nonzero,
                "target": None if fitted.data is None else fitted.data.target_name,
            },
            "score": {"name": score_name(fitted.model), **fitted.scores},
            "seconds": fitted.seconds,
            "outputs": outputs,
            "warnings": warned,
        }
    )


def _again() -> str:
    """The command line that goes on from here."""
    words = [word for word in sys.argv[1:] if word != "--force"]
    options_end = words.index("--") if "--" in words else len(words)
    resume = [] if "--resume" in words else ["--resume"]
    return shlex.join(["levelprox", *words[:options_end], *resume, *words[options_end:]])
