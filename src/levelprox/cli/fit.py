"""levelprox fit: a model from a file of data."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from levelprox.cli import _options as options
from levelprox.cli._data import check_input, check_outputs, reading_options
from levelprox.cli._fitting import Fitted, Fitting, Results
from levelprox.cli._options import CHOICE, LIMITS, OUTPUT
from levelprox.cli._output import as_document, print_json, print_line, print_model, score_name
from levelprox.cli._process import (
    Exit,
    UsageError,
    exit_code_of_status,
    in_shell_words,
    limited_threads,
    print_notice,
    printed_warnings,
)
from levelprox.cli._settings import Backend, Checkpointing, Settings
from levelprox.exceptions import counted


def fit(
    data: options.DataFile,
    target: options.Target = None,
    features: options.Features = None,
    level: options.Level = None,
    feature_cost: options.FeatureCost = None,
    budget: options.BudgetOption = None,
    keep: options.Keep = None,
    loss: options.LossOption = None,
    constraint: options.ConstraintOption = None,
    task: options.TaskOption = None,
    ridge: options.Ridge = None,
    positive: options.Positive = False,
    positive_for: options.PositiveFor = None,
    feature_weight: options.FeatureWeight = None,
    class_weight: options.ClassWeight = None,
    multi_class: options.MultiClassOption = None,
    standardize: options.Standardize = True,
    intercept: options.Intercept = True,
    seed: options.Seed = None,
    cv: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="FOLDS",
            rich_help_panel=CHOICE,
            help="Choose the best of several budgets by cross-validation with this number of folds.",
        ),
    ] = None,
    criterion: options.CriterionOption = None,
    scoring: options.Scoring = None,
    one_standard_error: options.OneStandardError = False,
    jobs: options.Jobs = None,
    drop: options.Drop = None,
    weight: options.Weight = None,
    categorical: options.Categorical = None,
    impute: options.Impute = None,
    exposure: options.Exposure = None,
    offset: options.Offset = None,
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
            help="Read a LIBSVM file in batches of this many rows, in bounded memory, by partial_fit.",
        ),
    ] = None,
    memory: options.Memory = None,
    chunked: options.Chunked = False,
    dask: options.Dask = None,
    device: options.Device = None,
    subsolver: options.SubsolverOption = None,
    start: options.StartOption = None,
    tol: options.Tol = 1e-6,
    max_iter: options.MaxIter = 1000,
    time_limit: options.TimeLimit = None,
    threads_: options.Threads = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            rich_help_panel=LIMITS,
            help="Write the state of the fit there, to resume from.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", rich_help_panel=LIMITS, help="Seconds between checkpoints; 0: after every step."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", rich_help_panel=LIMITS, help="Resume from the checkpoint, if it exists.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", rich_help_panel=LIMITS, help="Start again and replace the checkpoint.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="MODEL.levelprox", rich_help_panel=OUTPUT, help="Write the model to this file."
        ),
    ] = None,
    report: options.Report = None,
    json: options.Json = False,
    force: options.Force = False,
    accept_inaccurate: options.Accept = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Fit a sparse model and show its certificate.

    [bold]levelprox fit train.csv --target price --features 5 --out model.levelprox[/bold]

    The budget is a number of features (--features), a total cost (--feature-cost with --budget) or a level g(x) ≤ η
    (--level). With --cv or --criterion it is chosen from several. By default: one feature for every ten samples (of the
    rarest class), at most 10; with --cv from 0 to 30. All numbers are recomputed from the data. Ctrl-C keeps the best
    model so far.
    """
    settings = Settings.from_options(locals())
    state = Checkpointing(checkpoint, checkpoint_every, resume, restart)
    backend = Backend(stream, dask, chunked, device, threads_)
    _check_options(settings, backend, cv, checkpoint, report)
    settings.check_columns(exposure, offset)
    columns = {"--exposure": exposure, "--offset": offset, "--categorical": categorical, "--impute": impute}
    backend.check_columns(columns)
    if not (backend.takes_folders and data.is_dir()):
        check_input(data)
    if test is not None:
        check_input(test)
    check_outputs((out, report), (data, test), force)
    check_outputs((checkpoint,), (data, test, out, report), True)
    state.check()
    how = reading_options(
        target, drop, weight, format, no_header, separator, zero_based, offset, exposure, categorical, impute
    )
    with printed_warnings(quiet) as warned, limited_threads(threads_):
        fitting = Fitting(settings, state, how, cv)
        try:
            fitted = fitting.run(data, test, backend)
        except KeyboardInterrupt:
            if json:
                _print_no_model(data, warned)
            _print_resume_command(checkpoint, force)
            raise
        results = Results(fitted, quiet)
        results.write_model(out, force)
        results.score()
        results.write_page(report, force)
        if json:
            _print_json(fitted, results.written, warned)
        else:
            _print(fitted)
    if not quiet:
        for path in results.written.values():
            print_notice(f"levelprox: wrote {path}")
    if report is not None and "report" not in results.written:
        print_notice("levelprox: the page was not written")
    if fitted.interruption is not None:
        print_notice(f"levelprox: {in_shell_words(str(fitted.interruption))}")
        _print_resume_command(checkpoint, force or bool(results.written))
    results.raise_errors()
    if fitted.interruption is not None:
        return Exit.INTERRUPTED
    return exit_code_of_status(int(getattr(fitted.model, "status_", 0)), accept_inaccurate)


def _check_options(
    settings: Settings, backend: Backend, cv: int | None, checkpoint: Path | None, report: Path | None
) -> None:
    """Raise UsageError for options that contradict each other."""
    chooses = settings.chooses(cv)
    if not chooses and settings.budget is not None and len(settings.budget) > 1:
        raise UsageError("several numbers of --budget are for --cv, which chooses")
    if not chooses and not settings.single:
        raise UsageError("several budgets are for --cv, which chooses, or for levelprox path, which shows all")
    if settings.budget is not None and settings.features is not None and len(settings.features) > 1:
        raise UsageError("with --budget give one number of --features, or none")
    backend.check(chooses, checkpoint, report)
    in_memory = {
        "--budget": settings.budget is not None,
        "--scoring": settings.scoring is not None,
        "--ridge with several numbers": settings.has_ridges,
    }
    for option, is_given in in_memory.items():
        if is_given and backend.is_remote:
            raise UsageError(f"{option} needs the data in memory: no --stream, --dask, --chunked or --device")
    if settings.memory is not None and backend.stream is None:
        raise UsageError("--memory is for a stream: give --stream, too")
    settings.check_choice(cv)


def _print(fitted: Fitted) -> None:
    n, d = fitted.shape
    print_line(f"{type(fitted.model).__name__} on {fitted.path}: {counted(n, 'sample')}, {counted(d, 'feature')}")
    name = score_name(fitted.model)
    scores: list[tuple[str, object]] = [(f"{name}, {part}", f"{score:.6g}") for part, score in fitted.scores.items()]
    if not hasattr(fitted.model, "feature_names_in_") and fitted.one_based:
        scores.append(("features", "counted from 0: x0 is index 1 of the file"))
    print_model(fitted.model, [*scores, ("time", f"{fitted.seconds:.2f} s")])


def _print_json(fitted: Fitted, outputs: dict[str, Path], warned: list[str]) -> None:
    from levelprox import __version__

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
                "target": fitted.target,
            },
            "score": {"name": score_name(fitted.model), **fitted.scores},
            "seconds": fitted.seconds,
            "outputs": outputs,
            "warnings": warned,
        }
    )


def _print_no_model(data: Path, warned: list[str]) -> None:
    """Print the JSON document of a fit that was interrupted before it had a model, such as with --cv."""
    from levelprox import __version__

    about = {"levelprox": __version__, "command": "fit", "status": "interrupted", "model": None}
    print_json({**about, "data": {"path": data}, "outputs": {}, "warnings": warned})


def _print_resume_command(checkpoint: Path | None, force: bool) -> None:
    """Print the command line that resumes the fit, if there is a checkpoint.

    With `force` it replaces the files that the interrupted fit has written.
    """
    if checkpoint is None or not checkpoint.exists():
        return
    words = [word for word in sys.argv[1:] if word not in ("--force", "--resume", "--restart")]
    options_end = words.index("--") if "--" in words else len(words)
    resume = ["--resume", *(["--force"] if force else [])]
    print_notice(
        f"levelprox: to resume: {shlex.join(['levelprox', *words[:options_end], *resume, *words[options_end:]])}"
    )
