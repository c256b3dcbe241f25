"""Options of the command line: one table with the type, default and help of each of them."""
# ruff: noqa: RUF009  # the functions that define options return fields

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import typer

from levelprox.cli import _parsers as parsers
from levelprox.cli._parsers import CONSTRAINTS, LOSSES, SUBSOLVERS
from levelprox.cli._process import UsageError, limited_threads, printed_warnings

if TYPE_CHECKING:
    from levelprox.cli._data import NameLookup

Task = StrEnum("Task", "CLASSIFICATION REGRESSION")
Criterion = StrEnum("Criterion", "CV AIC BIC EBIC")
MultiClass = StrEnum("MultiClass", "AUTO SOFTMAX OVR")
Start = StrEnum("Start", "AUTO CONTINUATION DIRECT")
Imputing = StrEnum("Imputing", {"MEDIAN": "median", "MEAN": "mean", "MOST_FREQUENT": "most-frequent"})
Format = StrEnum("Format", "LIBSVM CSV TSV PARQUET NPZ")


def _in_panel(panel: str) -> Callable[..., Any]:
    """Return a function that defines an option in this panel of the help, as a field of `Options`."""

    def option(help: str, *names: str, default: Any = None, **settings: Any) -> Any:
        info = typer.Option(default, *names, rich_help_panel=panel, help=help, **settings)
        return field(default=default, metadata={"typer": info})

    return option


def _argument(metavar: str, help: str) -> Any:
    info = typer.Argument(..., readable=False, metavar=metavar, help=help, show_default=False)
    return field(default=Path(), metadata={"typer": info})


_data, _model, _choice = map(_in_panel, ("Data", "Model", "Choice of the budget"))
_limits, _output = map(_in_panel, ("Limits", "Output"))
_of_losses = f"{', '.join(LOSSES['classification'])}; {', '.join(LOSSES['regression'])}"


@dataclass(frozen=True)
class Options:
    """Arguments and options of the commands; those that a command does not take have their defaults."""

    model: Path = _argument("MODEL", "A .levelprox file.")
    data: Path = _argument("DATA", "LIBSVM, CSV, TSV, Parquet or npz.")
    file: Path = _argument("FILE", "A model, a checkpoint or data.")

    target: str | None = _data(
        'The target column (its number, with --no-header). By default the column named "target" or "y".', metavar="NAME"
    )
    drop: list[str] | None = _data("Columns to leave out, such as id,name; may be repeated.", metavar="NAMES")
    weight: str | None = _data("The column of sample weights.", metavar="NAME")
    categorical: list[str] | Literal["auto"] | None = _data(
        "Columns to encode as one 0/1 feature for each category, such as city,sex; auto: all text columns.",
        metavar="NAMES",
        parser=parsers.categories,
    )
    impute: Imputing | None = _data(
        "Replace missing numbers by this value of their column, and missing text by the most frequent one.",
        case_sensitive=False,
    )
    exposure: str | None = _data(
        "The column of exposures, with --loss poisson or gamma: the mean is exposure × rate.", metavar="NAME"
    )
    offset: str | None = _data("A column that is added to the linear predictor of a regression.", metavar="NAME")
    test: Path | None = _data("Test data, not used in the fit.", readable=False, metavar="FILE")
    format: Format | None = _data("Format of the file; by default from its name.", case_sensitive=False)
    no_header: bool = _data("The first line of a CSV file is data, not names.", "--no-header", default=False)
    separator: str | None = _data("Separator of the fields of a CSV file.", metavar="CHAR", parser=parsers.separator)
    zero_based: bool = _data("Indices of a LIBSVM file start at 0.", "--zero-based", default=False)
    stream: int | None = _data(
        "Read a LIBSVM file in batches of this many rows, in bounded memory, by partial_fit.", min=1, metavar="ROWS"
    )
    memory: float | None = _data(
        "With --stream: number of samples after which the weight of a sample has fallen to 1/e.",
        min=0,
        metavar="SAMPLES",
    )
    chunked: bool = _data("Read the file in chunks, for data larger than memory.", "--chunked", default=False)
    dask: str | None = _data(
        "Read and keep the data on a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT or local:WORKERS.",
        metavar="CLUSTER",
    )

    features: list[int] | None = _model(
        "Maximal number of features: 5; several: 1,2,5, 1:10 or 0:20:5.", metavar="K", parser=parsers.counts
    )
    level: list[float] | None = _model(
        "Level of the constraint g(x) ≤ η: 2.5; several: 0.5,1,2.5.",
        metavar="ETA",
        parser=parsers.amounts("level", "or several: 0.5,1,2.5", "g(x) is at least 0, and a budget is finite"),
    )
    feature_cost: dict[str, float] | None = _model(
        "Costs of features: age=1,scan=250, or a file of NAME,COST lines.",
        metavar="COSTS",
        parser=parsers.feature_costs,
    )
    budget: list[float] | None = _model(
        "With --feature-cost: maximal total cost; several: 5,10,20.",
        metavar="COST",
        parser=parsers.amounts("budget", "or several: 5,10,20", "costs are at least 0, and a budget is finite"),
    )
    keep: list[str] | None = _model(
        "Features that are always in the model and do not count towards the budget: age,sex.",
        metavar="NAMES",
        parser=parsers.names("--keep"),
    )
    loss: str | None = _model(f"{_of_losses}. Also huber:1.5, quantile:0.9.", metavar="NAME", parser=parsers.loss)
    constraint: str | None = _model(
        f"With --level: {', '.join(CONSTRAINTS)}.", metavar="NAME", parser=parsers.one_of("--constraint", CONSTRAINTS)
    )
    task: Task | None = _model("By default from the loss or the target.", case_sensitive=False)
    ridge: list[float] | Literal["auto"] | None = _model(
        "λ of the penalty λ × sum of squared standardised coefficients: 0.01; auto: only for "
        "separable classes. By default auto for classification, 0 for regression. Several, with --cv: 0,0.01,0.1.",
        metavar="LAMBDA",
        parser=parsers.ridges,
    )
    positive: bool = _model("All coefficients are nonnegative.", "--positive", default=False)
    positive_for: list[str] | None = _model(
        "Features with nonnegative coefficients: age,sex.", metavar="NAMES", parser=parsers.names("--positive-for")
    )
    feature_weight: dict[str, float] | None = _model(
        "With --level: weights of features, such as age=0.5,scan=2; by default 1.",
        metavar="WEIGHTS",
        parser=parsers.feature_weights,
    )
    class_weight: dict[str, float] | Literal["balanced"] | None = _model(
        "Weights of classes: yes=5,no=1; balanced: all classes have the same total weight.",
        metavar="WEIGHTS",
        parser=parsers.class_weights,
    )
    multi_class: MultiClass | None = _model("The loss for more than two classes.", case_sensitive=False)
    standardize: bool = _model(
        "Scale features to standard deviation 1 for the fit.", "--standardize/--no-standardize", default=True
    )
    intercept: bool = _model("", "--intercept/--no-intercept", default=True)
    seed: int | None = _model("Seed of subsolvers that sample.", min=0)

    cv: int | None = _choice(
        "Choose the best of several budgets by cross-validation with this number of folds.", min=2, metavar="FOLDS"
    )
    criterion: Criterion | None = _choice(
        "Criterion of the choice: cv (cross-validation), or the information criterion aic, bic or ebic.",
        case_sensitive=False,
    )
    scoring: str | None = _choice(
        "Score of the cross-validation, by its name in scikit-learn: accuracy, roc_auc, r2. By default the loss.",
        metavar="NAME",
    )
    one_standard_error: bool = _choice(
        "Choose the smallest budget whose score is within one standard error of the best.",
        "--one-standard-error",
        default=False,
    )
    jobs: int | None = _choice("Number of processes; -1: all processors.", metavar="N")

    device: str | None = _limits("Fit on a device of torch: cuda, cuda:1, cpu.", metavar="NAME")
    subsolver: str | None = _limits(
        f"With --level: {', '.join(SUBSOLVERS)}.", metavar="NAME", parser=parsers.one_of("--subsolver", SUBSOLVERS)
    )
    start: Start | None = _limits("With --level: starting point of the fit.", case_sensitive=False)
    tol: float = _limits("Tolerance on the KKT residual.", default=1e-6, min=0)
    max_iter: int = _limits("Maximal number of outer steps, or of swaps.", default=1000, min=0)
    time_limit: float | None = _limits(
        "Time limit of each fit, including those of --report; the best model so far is kept.", min=0, metavar="SECONDS"
    )
    threads: int | None = _limits("Maximal number of threads; by default all.", min=1)
    checkpoint: Path | None = _limits(
        "Write the state of the fit there, to resume from.", readable=False, metavar="FILE"
    )
    checkpoint_every: float | None = _limits(
        "Seconds between checkpoints; 0: after every step.", min=0, metavar="SECONDS"
    )
    resume: bool = _limits("Resume from the checkpoint, if it exists.", "--resume", default=False)
    restart: bool = _limits("Start again and replace the checkpoint.", "--restart", default=False)

    out: Path | None = _output("Write the result to this file.", readable=False, metavar="FILE")
    proba: bool = _output("Add the probability of each class.", "--proba", default=False)
    spreadsheet_safe: bool = _output(
        "Put an apostrophe before classes that a spreadsheet would evaluate as formulas.",
        "--spreadsheet-safe",
        default=False,
    )
    prove: bool = _output(
        "Refit with every further feature and examine all swaps, without a limit on time.", "--prove", default=False
    )
    report: Path | None = _output("Write an HTML report.", readable=False, metavar="PAGE.html")
    json: bool = _output("Print one JSON document on standard output.", "--json", default=False)
    force: bool = _output("Replace existing files.", "--force", default=False)
    accept_inaccurate: bool = _output("Exit with 0 instead of 3.", "--accept-inaccurate", default=False)
    quiet: bool = _output("Print only errors and results.", "--quiet", "-q", default=False)
    verbose: bool = _output("Show progress, also if standard error is no terminal.", "--verbose", "-v", default=False)

    @property
    def known_task(self) -> Task | None:
        """The task, as far as the options determine it."""
        return self.task or (None if self.loss is None else Task(parsers.task_of_loss(self.loss)))

    @property
    def chooses(self) -> bool:
        """Whether the budget is chosen, by folds or by a criterion."""
        return self.cv is not None or self.criterion is not None

    @property
    def has_ridges(self) -> bool:
        """Whether there are several ridge strengths to choose from."""
        return isinstance(self.ridge, list) and len(self.ridge) > 1

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: on a terminal, or with --verbose."""
        return not self.quiet and (self.verbose or sys.stderr.isatty())

    def check_model(self) -> None:
        """Raise UsageError for options of the model and of its choice that contradict each other."""
        if self.positive and self.positive_for is not None:
            raise UsageError("give --positive, for all features, or --positive-for, not both")
        for name in ("subsolver", "start", "constraint"):
            if getattr(self, name) is not None and self.level is None:
                raise UsageError(f"--{name} is for fits under a level: give --level, too")
        if (self.feature_cost is None) != (self.budget is None):
            raise UsageError("--feature-cost and --budget go together: give both, or neither")
        if self.budget is not None and self.level is not None:
            raise UsageError("--budget is for whole features: give --features or neither, not --level")
        if self.features is not None and self.level is not None:
            raise UsageError("give --features or --level, not both")
        if self.budget is not None and self.features is not None and len(self.features) > 1:
            raise UsageError("with --budget give one number of --features, or none")
        if self.loss is not None and self.task not in (None, parsers.task_of_loss(self.loss)):
            raise UsageError(f"--loss {self.loss} is for {parsers.task_of_loss(self.loss)}")
        if self.exposure is not None and self.loss not in ("poisson", "gamma"):
            raise UsageError("--exposure is for counts and amounts: give --loss poisson or --loss gamma")
        if self.offset is not None and self.known_task is Task.CLASSIFICATION:
            raise UsageError("--offset is for regression")
        if self.known_task is not None:
            self.check_task(self.known_task)
        self._check_choice()

    def check_task(self, task: Task) -> None:
        """Raise UsageError for options of the other task."""
        if task is Task.CLASSIFICATION:
            return
        for option, given in (("--class-weight", self.class_weight), ("--multi-class", self.multi_class)):
            if given is not None:
                raise UsageError(f"{option} is for classification, and this is a regression (--task overrides this)")
        if self.ridge == "auto":
            raise UsageError("--ridge auto is for classification; for a regression give a number")

    def _check_choice(self) -> None:
        """Raise UsageError for options that need --cv, or that contradict the criterion."""
        by_folds = self.criterion in (None, Criterion.CV)
        if self.cv is not None and not by_folds:
            raise UsageError(f"--criterion {self.criterion} uses no folds: give it or --cv, not both")
        of_folds = {"--scoring": self.scoring is not None, "--one-standard-error": self.one_standard_error}
        of_folds |= {"--jobs": self.jobs is not None}
        for option, is_given in of_folds.items():
            if is_given and not self.chooses:
                raise UsageError(f"{option} is for a choice between budgets: give --cv, too")
            if is_given and not by_folds and option != "--jobs":
                raise UsageError(f"{option} is for a choice by folds, not for --criterion {self.criterion}")
        if not self.chooses and self.has_ridges:
            raise UsageError("--ridge: several numbers are for --cv, which chooses")
        if self.jobs == 0:
            raise UsageError("--jobs: give a number of processes, or -1 for all processors")
        if self.scoring is not None:
            parsers.check_scoring(self.scoring)

    def estimator(self, task: Task, known: NameLookup, **more: Any) -> Any:
        """Return the estimator; with --cv or a criterion, one that chooses the budget."""
        from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV

        self.check_task(task)
        chooses = self.chooses
        kind: Any = SparseRegressorCV if chooses else SparseRegressor
        if task is Task.CLASSIFICATION:
            kind = SparseClassifierCV if chooses else SparseClassifier
        same = ("multi_class", "start", "memory", "cv", "criterion", "scoring", "time_limit", "constraint", "subsolver")
        wanted = {
            **{name: getattr(self, name) for name in same},
            "loss": None if self.loss is None else parsers.loss_of(self.loss),
            "n_features": _one_or_all(self.features, chooses and self.budget is None),
            "level": _one_or_all(self.level, chooses),
            "budget": _one_or_all(self.budget, chooses),
            "ridge": _one_or_all(self.ridge, self.has_ridges),
            "one_standard_error": self.one_standard_error or None,
            "n_jobs": self.jobs,
            "random_state": self.seed,
            **self._named(known),
            **more,
        }
        return kind(
            fit_intercept=self.intercept,
            standardize=self.standardize,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=int(self.shows_progress),
            **{
                name: str(value) if isinstance(value, StrEnum) else value
                for name, value in wanted.items()
                if value is not None
            },
        )

    def _named(self, known: NameLookup) -> dict[str, Any]:
        """Return the parameters that name features or classes; unknown names are errors."""
        look_up = {
            "feature_cost": known.costs,
            "feature_weight": known.values,
            "keep": known.features,
            "positive_for": known.features,
            "class_weight": known.class_weight,
        }
        given = {name: getattr(self, name) for name in look_up if getattr(self, name) is not None}
        found = {name: look_up[name](f"--{name.replace('_', '-')}", value) for name, value in given.items()}
        return {"positive": found.pop("positive_for", self.positive or None), **found}

    @contextmanager
    def progress(self, title: str, total: int, what: str) -> Iterator[Callable[[], None]]:
        """Show progress over a number of work items, if it is shown; the result counts one more."""
        if not self.shows_progress:
            yield lambda: None
            return
        from levelprox.report.progress import showing

        with showing(title, total, what) as progress:
            yield progress.advance


def _one_or_all(values: Any, several: bool) -> Any:
    return values[0] if isinstance(values, list) and not several else values


_NAMES = [one.name for one in fields(Options)]


def between(first: str, last: str) -> list[str]:
    """Return the names of the options from one to another, in the order of `Options`."""
    return _NAMES[_NAMES.index(first) : _NAMES.index(last) + 1]


def command(
    *names: str, out: tuple[str, str] | None = None
) -> Callable[[Callable[[Options, list[str]], int]], Callable[..., int]]:
    """Return a decorator that gives a command these options, as typer reads them from its signature.

    The command is called with its options and the list of the warnings so far, within its limit on threads.

    Parameters
    ----------
    *names : str
        Fields of `Options`.
    out : (str, str), optional
        Metavariable and help of --out, which differ between commands.
    """
    infos = {one.name: one.metadata["typer"] for one in fields(Options)}
    if out is not None:
        infos["out"] = typer.Option(None, readable=False, metavar=out[0], rich_help_panel="Output", help=out[1])
    types = get_type_hints(Options)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=infos[name], annotation=Any if infos[name].parser else types[name])
        for name in names
    ]

    def decorate(function: Callable[[Options, list[str]], int]) -> Callable[..., int]:
        @functools.wraps(function)
        def run(**given: Any) -> int:
            options = Options(**given)
            with printed_warnings(options.quiet) as warned, limited_threads(options.threads):
                return function(options, warned)

        run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        return run

    return decorate
