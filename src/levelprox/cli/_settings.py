"""Settings of a model: the values of its options, parsed from text and checked, and the estimator that has them."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from levelprox.cli._options import CONSTRAINTS, LOSSES, SUBSOLVERS, Criterion, Options, Task
from levelprox.cli._process import UsageError, is_number, reading

if TYPE_CHECKING:
    from levelprox.cli._data import NameLookup

_MAX_RANGE_LENGTH = 100_000


@dataclass(frozen=True)
class Settings:
    """Settings of a model: the options, and the values of those that are given as text.

    Attributes
    ----------
    options : Options
    features, level, budget, ridge : list, optional
        Several values are for a choice between them, or for a path.
    loss, constraint, subsolver : str, optional
    feature_cost, feature_weight, class_weight : dict of str to float, optional
    keep, positive_for : list of str, optional
    """

    options: Options
    features: list[int] | None
    level: list[float] | None
    budget: list[float] | None
    ridge: list[float] | Literal["auto"] | None
    loss: str | None
    constraint: str | None
    subsolver: str | None
    feature_cost: dict[str, float] | None
    feature_weight: dict[str, float] | None
    class_weight: dict[str, float] | Literal["balanced"] | None
    keep: list[str] | None
    positive_for: list[str] | None

    @staticmethod
    def of(options: Options) -> Settings:
        """Return the settings from the options; contradictory options are errors."""
        if options.positive and options.positive_for is not None:
            raise UsageError("give --positive, for all features, or --positive-for, not both")
        for name in ("subsolver", "start", "constraint"):
            if getattr(options, name) is not None and options.level is None:
                raise UsageError(f"--{name} is for fits under a level: give --level, too")
        if (options.feature_cost is None) != (options.budget is None):
            raise UsageError("--feature-cost and --budget go together: give both, or neither")
        if options.budget is not None and options.level is not None:
            raise UsageError("--budget is for whole features: give --features or neither, not --level")
        if options.features is not None and options.level is not None:
            raise UsageError("give --features or --level, not both")
        texts = {name: getattr(options, name) for name in _PARSERS}
        parsed = {name: None if text is None else _PARSERS[name](text) for name, text in texts.items()}
        settings = Settings(options, **parsed)
        if settings.loss is not None and options.task not in (None, task_of_loss(settings.loss)):
            raise UsageError(f"--loss {options.loss} is for {task_of_loss(settings.loss)}")
        if settings.known_task is not None:
            settings.check_task(settings.known_task)
        return settings

    @property
    def known_task(self) -> Task | None:
        """The task, as far as the options determine it."""
        return self.options.task or (None if self.loss is None else task_of_loss(self.loss))

    @property
    def chooses(self) -> bool:
        """Whether the budget is chosen, by folds or by a criterion."""
        return self.options.cv is not None or self.options.criterion is not None

    @property
    def has_ridges(self) -> bool:
        """Whether there are several ridge strengths to choose from."""
        return isinstance(self.ridge, list) and len(self.ridge) > 1

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: on a terminal, or with --verbose."""
        return not self.options.quiet and (self.options.verbose or sys.stderr.isatty())

    def check_task(self, task: Task) -> None:
        """Raise UsageError for options of the other task."""
        if task is Task.CLASSIFICATION:
            return
        for option, given in (("--class-weight", self.class_weight), ("--multi-class", self.options.multi_class)):
            if given is not None:
                raise UsageError(f"{option} is for classification, and this is a regression (--task overrides this)")
        if self.ridge == "auto":
            raise UsageError("--ridge auto is for classification; for a regression give a number")

    def check_budget(self) -> None:
        """Raise UsageError for several numbers of features with budgets of costs."""
        if self.budget is not None and self.features is not None and len(self.features) > 1:
            raise UsageError("with --budget give one number of --features, or none")

    def check_columns(self) -> None:
        """Raise UsageError for exposures and offsets that the loss does not take."""
        if self.options.exposure is not None and self.loss not in ("poisson", "gamma"):
            raise UsageError("--exposure is for counts and amounts: give --loss poisson or --loss gamma")
        if self.options.offset is not None and self.known_task is Task.CLASSIFICATION:
            raise UsageError("--offset is for regression")

    def check_choice(self) -> None:
        """Raise UsageError for options that need --cv, or that contradict the criterion."""
        criterion, scoring = self.options.criterion, self.options.scoring
        by_folds = criterion in (None, Criterion.CV)
        if self.options.cv is not None and not by_folds:
            raise UsageError(f"--criterion {criterion} uses no folds: give it or --cv, not both")
        of_folds = {"--scoring": scoring is not None, "--one-standard-error": self.options.one_standard_error}
        of_folds |= {"--jobs": self.options.jobs is not None}
        for option, is_given in of_folds.items():
            if is_given and not self.chooses:
                raise UsageError(f"{option} is for a choice between budgets: give --cv, too")
            if is_given and not by_folds and option != "--jobs":
                raise UsageError(f"{option} is for a choice by folds, not for --criterion {criterion}")
        if not self.chooses and self.has_ridges:
            raise UsageError("--ridge: several numbers are for --cv, which chooses")
        if self.options.jobs == 0:
            raise UsageError("--jobs: give a number of processes, or -1 for all processors")
        if scoring is not None:
            _check_scoring(scoring)

    def estimator(self, task: Task, known: NameLookup, **more: Any) -> Any:
        """Return the estimator; with --cv or a criterion, one that chooses the budget."""
        from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV

        self.check_task(task)
        options, chooses = self.options, self.chooses
        kind: Any = SparseRegressorCV if chooses else SparseRegressor
        if task is Task.CLASSIFICATION:
            kind = SparseClassifierCV if chooses else SparseClassifier
        same = ("multi_class", "start", "memory", "cv", "criterion", "scoring", "time_limit")
        wanted = {
            **{name: getattr(options, name) for name in same},
            "loss": None if self.loss is None else _loss_of(self.loss),
            "n_features": _one_or_all(self.features, chooses and self.budget is None),
            "level": _one_or_all(self.level, chooses),
            "budget": _one_or_all(self.budget, chooses),
            "constraint": self.constraint,
            "ridge": _one_or_all(self.ridge, self.has_ridges),
            "subsolver": self.subsolver,
            "one_standard_error": options.one_standard_error or None,
            "n_jobs": options.jobs,
            "random_state": options.seed,
            **self._named(known),
            **more,
        }
        return kind(
            fit_intercept=options.intercept,
            standardize=options.standardize,
            tol=options.tol,
            max_iter=options.max_iter,
            verbose=int(self.shows_progress),
            **{name: _as_text(value) for name, value in wanted.items() if value is not None},
        )

    def _named(self, known: NameLookup) -> dict[str, Any]:
        """Return the parameters that name features or classes; unknown names are errors."""
        found: dict[str, Any] = {"positive": self.options.positive or None}
        if self.feature_cost is not None:
            found["feature_cost"] = known.costs("--feature-cost", self.feature_cost)
        if self.feature_weight is not None:
            found["feature_weight"] = known.values("--feature-weight", self.feature_weight)
        if self.keep is not None:
            found["keep"] = known.features("--keep", self.keep)
        if self.positive_for is not None:
            found["positive"] = known.features("--positive-for", self.positive_for)
        if self.class_weight is not None:
            given = self.class_weight
            found["class_weight"] = given if given == "balanced" else known.class_weight("--class-weight", given)
        return found

    @contextmanager
    def progress(self, title: str, total: int, what: str) -> Iterator[Callable[[], None]]:
        """Show progress over a number of work items, if it is shown; the result counts one more."""
        if not self.shows_progress:
            yield lambda: None
            return
        from levelprox.report.progress import showing

        with showing(title, total, what) as progress:
            yield progress.advance


def task_of_loss(loss: str) -> Task:
    """Return the task of a loss."""
    name = loss.partition(":")[0]
    return next(Task(task) for task, names in LOSSES.items() if name in names)


def _loss_of(text: str) -> Any:
    from levelprox import losses

    name, _, parameter = text.partition(":")
    if not parameter:
        return name
    return losses.Huber(float(parameter)) if name == "huber" else losses.Quantile(float(parameter))


def _one_or_all(values: Any, several: bool) -> Any:
    return values[0] if isinstance(values, list) and not several else values


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value


def counts(text: str) -> list[int]:
    """Parse numbers of features: "5", "1,2,5", "1:10" or "0:20:5", both ends included."""
    found: list[int] = []
    for part in text.split(","):
        try:
            first, *more = (int(number) for number in part.split(":"))
        except ValueError:
            raise UsageError(f"--features: {part!r} is no number of features; give 5, 1,2,5 or 1:10") from None
        last, step = (more + [first, 1][len(more) :]) if len(more) <= 2 else (first, 0)
        if first < 0 or last < first or step < 1 or (last - first) // step >= _MAX_RANGE_LENGTH:
            raise UsageError(f"--features: {part!r} is no range of numbers of features; give 5, 1,2,5 or 1:10")
        found += range(first, last + 1, step)
    return sorted(set(found))


def _amounts(what: str, example: str, reason: str) -> Callable[[str], list[float]]:
    """Return the parser of an option of nonnegative numbers: "2.5" or "0.5,1,2.5"."""

    def parse(text: str) -> list[float]:
        try:
            found = sorted({float(number) for number in text.split(",")})
        except ValueError:
            raise UsageError(f"--{what}: {text!r} is no {what}; give a number, {example}") from None
        if not all(0 <= one < math.inf for one in found):
            raise UsageError(f"--{what}: {text!r} is no {what}: {reason}")
        return found

    return parse


def _ridges(text: str) -> list[float] | Literal["auto"]:
    """Parse ridge strengths: "auto", "0.01" or "0,0.01,0.1"."""
    parse = _amounts("ridge", "several (0,0.01,0.1), or auto", "it is finite and at least 0")
    return "auto" if text.strip().lower() == "auto" else parse(text)


def names_of(option: str, text: str) -> list[str]:
    """Parse names separated by commas; a name with a comma stands in double quotes."""
    found = [name.strip() for name in _fields(option, text)]
    if not all(found):
        raise UsageError(f"{option}: a name is empty in {text!r}; give NAME,NAME,…")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option}: {twice!r} is there twice")
    return found


def _class_weights(text: str) -> dict[str, float] | Literal["balanced"]:
    """Parse class weights: "balanced", or "yes=5,no=1"."""
    if text.strip().lower() == "balanced":
        return "balanced"
    wanted = "give balanced, or CLASS=WEIGHT,… with weights above 0"
    found = _numbers("--class-weight", "weight", _pairs("--class-weight", text), wanted)
    if not all(found.values()):
        raise UsageError(f"--class-weight: a weight of {text!r} is 0; {wanted}")
    return found


def _feature_weights(text: str) -> dict[str, float]:
    """Parse feature weights: "age=0,scan=2"."""
    wanted = "give NAME=WEIGHT,… with weights of at least 0"
    return _numbers("--feature-weight", "weight", _pairs("--feature-weight", text), wanted)


def _feature_costs(text: str) -> dict[str, float]:
    """Parse feature costs: "age=1,scan=250", or a file of lines "name,cost", with or without a header."""
    pairs = _pairs("--feature-cost", text) if "=" in text else _cost_rows(Path(text))
    return _numbers("--feature-cost", "cost", pairs, "give NAME=COST,… or a file of NAME,COST lines")


def _cost_rows(path: Path) -> list[list[str]]:
    try:
        with reading(path), open(path, encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--feature-cost: {path} is no text of names and costs: {error}") from None
    if any(len(row) != 2 for row in rows):
        place = next(i for i, row in enumerate(rows, 1) if len(row) != 2)
        raise UsageError(f"--feature-cost: {path}, row {place}: a name and a cost are expected, separated by a comma")
    has_titles = bool(rows) and not is_number(rows[0][1])
    return rows[has_titles:]


def _pairs(option: str, text: str) -> Iterable[Sequence[str]]:
    """Split NAME=NUMBER,… into pairs, at the last = of each."""
    return (part.rpartition("=")[::2] for part in _fields(option, text))


def _fields(option: str, text: str) -> list[str]:
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise UsageError(f"{option}: {text!r} has quotes that do not end ({error})") from None


def _numbers(option: str, what: str, pairs: Iterable[Sequence[str]], wanted: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, number in pairs:
        name = name.strip()
        if not name or not is_number(number) or not 0 <= float(number) < math.inf:
            raise UsageError(f"{option}: {number!r} is no {what} of {name!r}; {wanted}")
        if name in found:
            raise UsageError(f"{option}: {name!r} has two {what}s")
        found[name] = float(number)
    return found


def _one_of(option: str, text: str, names: Sequence[str], given: str | None = None) -> str:
    """Return one of the names, in lower case with underscores: "MCP" and "squared-hinge" are accepted."""
    name = (given or text).strip().lower().replace("-", "_")
    if name not in names:
        raise UsageError(f"{option}: {text!r} is none of {', '.join(names)}{_hint(given or text, names)}")
    return name


def _loss(text: str) -> str:
    """Check the name of a loss and its parameter, if given: "huber", "quantile:0.9"."""
    given, colon, parameter = text.partition(":")
    name = _one_of("--loss", text, [name for group in LOSSES.values() for name in group], given)
    if colon:
        if name not in ("huber", "quantile"):
            raise UsageError(f"--loss: {name} has no parameter")
        if not is_number(parameter):
            raise UsageError(f"--loss: {parameter!r} is no number; give, for example, {name}:0.9")
    return f"{name}{colon}{parameter}"


def _check_scoring(text: str) -> None:
    """Raise UsageError unless this is the name of a scorer of scikit-learn."""
    from sklearn.metrics import get_scorer_names

    known = get_scorer_names()
    if text not in known:
        hint = _hint(text, known) or "; accuracy, neg_log_loss, roc_auc and r2 are some"
        raise UsageError(f"--scoring: {text!r} is no score of scikit-learn{hint}")


def _hint(text: str, names: Iterable[str]) -> str:
    near = get_close_matches(text.lower(), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


#: Parsers of the options that are given as text.
_PARSERS: dict[str, Callable[[str], Any]] = {
    "features": counts,
    "level": _amounts("level", "or several: 0.5,1,2.5", "g(x) is at least 0, and a budget is finite"),
    "budget": _amounts("budget", "or several: 5,10,20", "costs are at least 0, and a budget is finite"),
    "ridge": _ridges,
    "loss": _loss,
    "constraint": lambda text: _one_of("--constraint", text, CONSTRAINTS),
    "subsolver": lambda text: _one_of("--subsolver", text, SUBSOLVERS),
    "feature_cost": _feature_costs,
    "feature_weight": _feature_weights,
    "class_weight": _class_weights,
    "keep": lambda text: names_of("--keep", text),
    "positive_for": lambda text: names_of("--positive-for", text),
}
