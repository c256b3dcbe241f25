"""levelprox fit: a model from a file of data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli._data import (
    NameLookup,
    as_classes,
    begin_checkpoint,
    check_checkpoint,
    check_files,
    check_outputs,
    checkpoint_parameters,
    errors_as_bad_data,
    format_of_file,
    infer_task,
    infer_task_from_target,
    labels_of,
    page_of,
    print_resume_command,
    read,
    read_for_model,
    read_test,
    reading_options,
    score_of,
    write_text,
)
from levelprox.cli._options import Options, Task, between, command
from levelprox.cli._output import as_document, heading, print_json, print_line, print_model, score_name
from levelprox.cli._process import (
    Exit,
    UsageError,
    exit_code_of_status,
    in_shell_words,
    message_of,
    print_error,
    print_notice,
    writing,
)
from levelprox.exceptions import counted

if TYPE_CHECKING:
    from levelprox.cli._remote_data import RemoteData
    from levelprox.io.data import Data, Reading


@command(
    "data",
    *between("target", "dask"),
    *between("features", "jobs"),
    *between("device", "restart"),
    "out",
    *between("report", "verbose"),
    out=("MODEL.levelprox", "Write the model to this file."),
)
def fit(options: Options, warned: list[str]) -> int:
    """Fit a sparse model and show its certificate.

    [bold]levelprox fit train.csv --target price --features 5 --out model.levelprox[/bold]

    The budget is a number of features (--features), a total cost (--feature-cost with --budget) or a level g(x) ≤ η
    (--level). With --cv or --criterion it is chosen from several. By default: one feature for every ten samples (of the
    rarest class), at most 10; with --cv from 0 to 30. All numbers are recomputed from the data. Ctrl-C keeps the best
    model so far.
    """
    _check_options(options)
    data, test, out, report, checkpoint = options.data, options.test, options.out, options.report, options.checkpoint
    is_folder = (options.dask is not None or options.chunked) and data.is_dir()
    check_files((None if is_folder else data, test), (out, report), options.force)
    check_outputs((checkpoint,), (data, test, out, report), True)
    check_checkpoint(options)
    how = reading_options(options)
    try:
        fitted = _fit(options, how)
    except KeyboardInterrupt:
        if options.json:
            _print_no_model(data, warned)
        print_resume_command(checkpoint, options.force)
        raise
    fitted.write_model()
    fitted.score(how)
    fitted.write_page()
    if options.json:
        _print_json(fitted, warned)
    else:
        _print(fitted, how)
    if not options.quiet:
        for path in fitted.written.values():
            print_notice(f"levelprox: wrote {path}")
    if report is not None and "report" not in fitted.written:
        print_notice("levelprox: the page was not written")
    if fitted.interruption is not None:
        print_notice(f"levelprox: {in_shell_words(str(fitted.interruption))}")
        print_resume_command(checkpoint, options.force or bool(fitted.written))
    fitted.raise_errors()
    if fitted.interruption is not None:
        return Exit.INTERRUPTED
    return exit_code_of_status(int(getattr(fitted.model, "status_", 0)), options.accept_inaccurate)


def _check_options(options: Options) -> None:
    """Raise UsageError for options that contradict each other."""
    if options.resume and options.restart:
        raise UsageError("give --resume or --restart, not both")
    of_checkpoint = {"resume": options.resume, "restart": options.restart}
    of_checkpoint["checkpoint-every"] = options.checkpoint_every is not None
    if options.checkpoint is None and any(of_checkpoint.values()):
        raise UsageError(f"--{next(name for name, given in of_checkpoint.items() if given)} needs --checkpoint PATH")
    if not options.chooses and len(options.budget or []) > 1:
        raise UsageError("several numbers of --budget are for --cv, which chooses")
    if not options.chooses and len(options.budget or options.features or options.level or []) > 1:
        raise UsageError("several budgets are for --cv, which chooses, or for levelprox path, which shows all")
    _check_backend(options)
    if options.memory is not None and options.stream is None:
        raise UsageError("--memory is for a stream: give --stream, too")
    options.check_model()


def _check_backend(options: Options) -> None:
    """Raise UsageError for options that contradict each other on where the data are, or that need them in memory."""
    places = {"stream": options.stream, "dask": options.dask, "chunked": options.chunked, "device": options.device}
    given = [f"--{name}" for name, value in places.items() if value not in (None, False)]
    if len(given) > 1:
        raise UsageError(f"give {given[0]} or {given[1]}, not both")
    if options.stream is not None and (options.chooses or options.checkpoint is not None or options.report is not None):
        raise UsageError("--stream reads the data once: it goes with neither --cv, --checkpoint nor --report")
    if (options.dask is not None or options.chunked) and options.report is not None:
        raise UsageError(f"--report needs the data in memory: it does not go with {given[0]}")
    if options.dask is not None:
        from levelprox.cli._remote_data import local_workers

        local_workers(options.dask)
    if options.device is not None and find_spec("torch") is None:
        raise UsageError("--device needs torch: pip install 'levelprox[gpu]'")
    in_memory = {
        "--budget": options.budget is not None,
        "--scoring": options.scoring is not None,
        "--ridge with several numbers": options.has_ridges,
    }
    for option, is_given in in_memory.items():
        if is_given and given:
            raise UsageError(f"{option} needs the data in memory: no --stream, --dask, --chunked or --device")
    for name in ("exposure", "offset", "categorical", "impute"):
        if getattr(options, name) is not None and given and options.device is None:
            raise UsageError(f"--{name} needs the data in memory: no --stream, --dask or --chunked")


@dataclass(eq=False)
class _Fitted:
    """A fitted model, its scores and written files. An error in one of them does not lose the others.

    Attributes
    ----------
    options : Options
    model : estimator
    task : Task
    shape : (int, int)
        Of the data.
    seconds : float
    data, test : Data, optional
        As far as they are in memory.
    target : str, optional
        The target column.
    interruption : KeyboardInterrupt, optional
        What ended the fit, with a model.
    scores : dict of str to float
    written : dict of str to Path
        Files that were written.
    errors : list of BaseException
        Errors so far, raised after the results have been printed.
    """

    options: Options
    model: Any
    task: Task
    shape: tuple[int, int]
    seconds: float
    data: Data | None = None
    test: Data | None = None
    target: str | None = None
    interruption: KeyboardInterrupt | None = None
    scores: dict[str, float] = field(default_factory=dict)
    written: dict[str, Path] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def write_model(self) -> None:
        """Write the model file, before anything else that takes time."""
        out = self.options.out
        if out is None:
            return
        with self._collecting_errors(), writing(out):
            self.model.save(out, overwrite=self.options.force)
            self.written["model"] = out

    def score(self, how: Reading) -> None:
        """Compute the training and test scores; none if the fit was interrupted."""
        if self._stopped:
            return
        with self._collecting_errors():
            if self.options.stream is not None and self.options.test is not None:  # the number of features is known now
                self.test = read_for_model(self.model, self.options.test, how, needs_target=True)
            for name, data in (("train", self.data), ("test", self.test)):
                if data is not None:
                    self.scores[name] = score_of(self.model, data, self.task)

    def write_page(self) -> None:
        """Write the report page; none if the fit was interrupted."""
        report = self.options.report
        if report is None or self.data is None or self._stopped:
            return
        with self._collecting_errors():
            if not self.options.quiet:
                count = len(self.model.path_budgets(*self.shape))
                print_notice(f"levelprox: fitting {count} budgets for the page (--time-limit is for each fit)")
            write_text(report, [page_of(self.model, self.data, self.test, self.task)], self.options.force)
            self.written["report"] = report

    @property
    def _stopped(self) -> bool:
        return self.interruption is not None or any(isinstance(one, KeyboardInterrupt) for one in self.errors)

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


def _fit(options: Options, how: Reading) -> _Fitted:
    """Read the data and fit the model."""
    if options.stream is not None or options.chunked or options.dask is not None:
        from levelprox.cli import _remote_data
    if options.stream is not None:
        began = time.monotonic()
        model, shape, task = _remote_data.fit_stream(options.data, options.stream, options, how)
        return _Fitted(options, model, task, shape, time.monotonic() - began)
    if options.chunked:
        return _fit_remote(options, how, _remote_data.chunked_data(options.data, how))
    if options.dask is not None:
        with _remote_data.connected(options.dask, options.threads) as client:
            return _fit_remote(options, how, _remote_data.cluster_data(options.data, how, client))
    data = read(options.data, how)
    task = infer_task(options, *infer_task_from_target(data.y))
    y = labels_of(data, task)
    known = NameLookup.of(data, y, by_index=options.device is not None)
    model = options.estimator(task, known, device=options.device, **checkpoint_parameters(options))
    # Read before the fit, so that an unsuitable test file is found at once.
    test = None if options.test is None else read_test(options.test, data, how)
    _print_budget(options, model, y, data.weight, data.shape[1])
    seconds, interruption = _timed_fit(options, model, data.X, y, data.weight, **data.more)
    if data.preprocessing is not None:
        model.preprocessing_ = data.preprocessing
    return _Fitted(options, model, task, data.shape, seconds, data, test, data.target_name, interruption)


def _fit_remote(options: Options, how: Reading, data: RemoteData) -> _Fitted:
    """Fit data that are not in memory."""
    task = infer_task(options, *data.infer_task())
    y = data.targets(task)
    labels = as_classes(data.seen.labels) if task is Task.CLASSIFICATION else None
    known = NameLookup(data.path, data.shape[1], data.names, labels, by_index=True)
    model = options.estimator(task, known, **checkpoint_parameters(options))
    test = None if options.test is None else read(options.test, how, data.names or data.shape[1])
    _print_budget(options, model, data.seen.labels, data.seen.weights, data.shape[1])
    seconds, interruption = _timed_fit(options, model, data.X, y, data.weight)
    if data.names is not None:  # arrays have no column names
        import numpy as np

        model.feature_names_in_ = np.asarray(data.names, object)
    return _Fitted(options, model, task, data.shape, seconds, None, test, data.target, interruption)


def _timed_fit(
    options: Options, model: Any, X: Any, y: Any, weight: Any, **more: Any
) -> tuple[float, KeyboardInterrupt | None]:
    """Fit the model; return the seconds, and the interrupt if one ended the fit with a model."""
    begin_checkpoint(options)
    began, interruption = time.monotonic(), None
    try:
        with errors_as_bad_data():
            model.fit(X, y, weight, **more)
    except KeyboardInterrupt as signal:
        if not hasattr(model, "coef_"):
            raise
        interruption = signal
    return time.monotonic() - began, interruption


def _print_budget(options: Options, model: Any, y: Any, weight: Any, width: int) -> None:
    """Print the default budget if none is given; y may be the different labels, with their total weights."""
    given = options.features, options.level, options.budget
    if any(one is not None for one in given) or options.quiet:
        return
    if options.chooses:
        grid = ", ".join(f"{value:g}" for value in model.path_budgets(y.size, width))
        print_notice(f"levelprox: choosing from {grid} features (--features overrides this)")
        return
    of_what = "samples of the rarest class" if hasattr(model, "decision_function") else "samples"
    with suppress(ValueError):  # invalid weights, which the fit reports
        most = int(model.budget_for(y, weight))
        print_notice(
            f"levelprox: at most {counted(most, 'feature')}: one for every ten {of_what}, at least 1 "
            "and at most 10 (--features overrides this)"
        )


def _print(fitted: _Fitted, how: Reading) -> None:
    n, d = fitted.shape
    path, model = fitted.options.data, fitted.model
    print_line(f"{type(model).__name__} on {path}: {counted(n, 'sample')}, {counted(d, 'feature')}")
    name = score_name(model)
    more: list[tuple[str, object]] = [(f"{name}, {part}", f"{score:.6g}") for part, score in fitted.scores.items()]
    counts_from_one = not path.is_dir() and path.suffix != ".npy" and format_of_file(path, how) == "libsvm"
    if not hasattr(model, "feature_names_in_") and counts_from_one and not how.zero_based:
        more.append(("features", "counted from 0: x0 is index 1 of the file"))
    print_model(model, [*more, ("time", f"{fitted.seconds:.2f} s")])


def _print_json(fitted: _Fitted, warned: list[str]) -> None:
    n, d = fitted.shape
    print_json(
        {
            **heading("fit"),
            **as_document(fitted.model),
            "task": fitted.task,
            "data": {
                "path": fitted.options.data,
                "n_samples": n,
                "n_features": d,
                "n_nonzero": None if fitted.data is None else fitted.data.n_nonzero,
                "target": fitted.target,
            },
            "score": {"name": score_name(fitted.model), **fitted.scores},
            "seconds": fitted.seconds,
            "outputs": fitted.written,
            "warnings": warned,
        }
    )


def _print_no_model(data: Path, warned: list[str]) -> None:
    """Print the JSON document of a fit that was interrupted before it had a model, such as with --cv."""
    print_json(
        {
            **heading("fit"),
            "status": "interrupted",
            "model": None,
            "data": {"path": data},
            "outputs": {},
            "warnings": warned,
        }
    )
