"""Settings of a command: the estimator and its parameters, the checkpoint, and where the data are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from levelprox.cli import _parsing as parsing
from levelprox.cli._data import NameLookup
from levelprox.cli._parsing import LOSSES, Task
from levelprox.cli._process import CommandError, Exit, UsageError, reading
from levelprox.cli._remote_data import local_workers

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Settings:
    """Settings of a model from the options; lists if several budgets are given."""

    task: Task | None
    loss: str | None
    features: list[int] | None
    level: list[float] | None
    constraint: str | None
    standardize: bool
    intercept: bool
    tol: float
    max_iter: int
    time_limit: float | None
    seed: int | None
    quiet: bool
    verbose: bool
    feature_cost: dict[str, float] | None = None
    budget: list[float] | None = None
    ridge: list[float] | Literal["auto"] | None = None
    keep: list[str] | None = None
    positive: bool | list[str] = False
    feature_weight: dict[str, float] | None = None
    class_weight: dict[str, float] | Literal["balanced"] | None = None
    multi_class: str | None = None
    subsolver: str | None = None
    start: str | None = None
    criterion: str | None = None
    scoring: str | None = None
    one_standard_error: bool = False
    jobs: int | None = None
    memory: float | None = None

    @staticmethod
    def of(
        features: str | None,
        level: str | None,
        loss: str | None,
        constraint: str | None,
        feature_cost: str | None = None,
        budget: str | None = None,
        *,
        ridge: str | None = None,
        keep: str | None = None,
        positive: bool = False,
        positive_for: str | None = None,
        feature_weight: str | None = None,
        class_weight: str | None = None,
        subsolver: str | None = None,
        **more: Any,
    ) -> Settings:
        """Return the settings from the text of the options; contradictory options are errors."""
        if positive and positive_for is not None:
            raise UsageError("give --positive, for all features, or --positive-for, not both")
        for option, given in (("--subsolver", subsolver), ("--start", more.get("start"))):
            if given is not None and level is None:
                raise UsageError(f"{option} is for fits under a level: give --level, too")
        if (feature_cost is None) != (budget is None):
            raise UsageError("--feature-cost and --budget go together: give both, or neither")
        if budget is not None and level is not None:
            raise UsageError("--budget is for whole features: give --features or neither, not --level")
        if features is not None and level is not None:
            raise UsageError("give --features or --level, not both")
        if constraint is not None and level is None:
            raise UsageError("--constraint is for fits under a level: give --level, too")
        if loss is not None and more["task"] is not None and task_of_loss(parsing.loss(loss)) != more["task"]:
            raise UsageError(f"--loss {loss} is for {task_of_loss(loss)}")
        settings = Settings(
            loss=None if loss is None else parsing.loss(loss),
            features=None if features is None else parsing.counts(features),
            level=None if level is None else parsing.levels(level),
            constraint=None if constraint is None else parsing.constraint(constraint),
            feature_cost=None if feature_cost is None else parsing.feature_costs(feature_cost),
            budget=None if budget is None else parsing.budgets(budget),
            ridge=None if ridge is None else parsing.ridges(ridge),
            keep=None if keep is None else parsing.names("--keep", keep),
            positive=positive if positive_for is None else parsing.names("--positive-for", positive_for),
            feature_weight=None if feature_weight is None else parsing.feature_weights(feature_weight),
            class_weight=None if class_weight is None else parsing.class_weights(class_weight),
            subsolver=None if subsolver is None else parsing.subsolver(subsolver),
            **more,
        )
        if settings.known_task is not None:
            settings.check_task(settings.known_task)
        return settings

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> Settings:
        """Return the settings from the options of a command by name; options that are no settings are ignored."""
        names = {"positive_for", *(field.name for field in fields(Settings))}
        return Settings.of(**{name: value for name, value in options.items() if name in names})

    @property
    def known_task(self) -> Task | None:
        """The task, as far as the options determine it."""
        return self.task or (None if self.loss is None else task_of_loss(self.loss))

    def check_task(self, task: Task) -> None:
        """Raise UsageError for options of the other task."""
        if task is Task.CLASSIFICATION:
            return
        for option, given in (("--class-weight", self.class_weight), ("--multi-class", self.multi_class)):
            if given is not None:
                raise UsageError(f"{option} is for classification, and this is a regression (--task says otherwise)")
        if self.ridge == "auto":
            raise UsageError("--ridge auto is for classification; for a regression give a number")

    def check_columns(self, exposure: str | None, offset: str | None) -> None:
        """Raise UsageError for exposures and offsets that the loss does not take."""
        if exposure is not None and self.loss not in ("poisson", "gamma"):
            raise UsageError("--exposure is for counts and amounts: give --loss poisson or --loss gamma")
        if offset is not None and self.known_task is Task.CLASSIFICATION:
            raise UsageError("--offset is for regression")

    def chooses(self, cv: int | None) -> bool:
        """Return whether the budget is chosen, by folds or by a criterion."""
        return cv is not None or self.criterion is not None

    def check_choice(self, cv: int | None) -> None:
        """Raise UsageError for options that need --cv, or that contradict the criterion."""
        by_folds = self.criterion is None or self.criterion == "cv"
        if cv is not None and not by_folds:
            raise UsageError(f"--criterion {self.criterion} uses no folds: give it or --cv, not both")
        of_folds = {"--scoring": self.scoring is not None, "--one-standard-error": self.one_standard_error}
        of_folds |= {"--jobs": self.jobs is not None}
        for option, is_given in of_folds.items():
            if is_given and not self.chooses(cv):
                raise UsageError(f"{option} is for a choice between budgets: give --cv, too")
            if is_given and not by_folds and option != "--jobs":
                raise UsageError(f"{option} is for a choice by folds, not for --criterion {self.criterion}")
        if not self.chooses(cv) and self.has_ridges:
            raise UsageError("--ridge: several numbers are for --cv, which chooses")
        if self.jobs == 0:
            raise UsageError("--jobs: give a number of processes, or -1 for all processors")
        if self.scoring is not None:
            parsing.scoring(self.scoring)

    @property
    def has_ridges(self) -> bool:
        """Whether there are several ridge strengths to choose from."""
        return isinstance(self.ridge, list) and len(self.ridge) > 1

    @property
    def single(self) -> bool:
        """Whether at most one budget is given."""
        return len(self.budget or self.features or self.level or [0]) == 1

    def estimator(self, task: Task, known: NameLookup, *, cv: int | None = None, **more: Any) -> Any:
        """Return the estimator; with `cv` or a criterion, one that chooses the budget."""
        from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV

        self.check_task(task)
        chooses = self.chooses(cv)
        kinds = {
            (Task.CLASSIFICATION, False): SparseClassifier,
            (Task.CLASSIFICATION, True): SparseClassifierCV,
            (Task.REGRESSION, False): SparseRegressor,
            (Task.REGRESSION, True): SparseRegressorCV,
        }
        wanted = {
            "loss": None if self.loss is None else _loss(self.loss),
            "n_features": self._budget(self.features, chooses and self.budget is None),
            "level": self._budget(self.level, chooses),
            "budget": self._budget(self.budget, chooses),
            "constraint": self.constraint,
            "ridge": self._budget(self.ridge, self.has_ridges) if isinstance(self.ridge, list) else self.ridge,
            "multi_class": None if self.multi_class is None else str(self.multi_class),
            "subsolver": self.subsolver,
            "start": None if self.start is None else str(self.start),
            "memory": self.memory,
            "cv": cv,
            "criterion": None if self.criterion is None else str(self.criterion),
            "scoring": self.scoring,
            "one_standard_error": self.one_standard_error or None,
            "n_jobs": self.jobs,
            "random_state": self.seed,
            "time_limit": self.time_limit,
            **self._named(known),
            **more,
        }
        return kinds[task, chooses](
            fit_intercept=self.intercept,
            standardize=self.standardize,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=int(self.shows_progress),
            **{name: value for name, value in wanted.items() if value is not None},
        )

    def _named(self, known: NameLookup) -> dict[str, Any]:
        """Return the parameters that name features or classes; unknown names are errors."""
        found: dict[str, Any] = {"positive": self.positive or None}
        if self.feature_cost is not None:
            found["feature_cost"] = known.costs("--feature-cost", self.feature_cost)
        if self.feature_weight is not None:
            found["feature_weight"] = known.values("--feature-weight", self.feature_weight)
        if self.keep is not None:
            found["keep"] = known.features("--keep", self.keep)
        if isinstance(self.positive, list):
            found["positive"] = known.features("--positive-for", self.positive)
        if self.class_weight is not None:
            given = self.class_weight
            found["class_weight"] = given if given == "balanced" else known.class_weight("--class-weight", given)
        return found

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown: on a terminal, or with --verbose."""
        return not self.quiet and (self.verbose or sys.stderr.isatty())

    @contextmanager
    def progress(self, title: str, total: int, what: str) -> Iterator[Callable[[], None]]:
        """Show progress over a number of work items, if it is shown; the result counts one more."""
        if not self.shows_progress:
            yield lambda: None
            return
        from levelprox.report.progress import showing

        with showing(title, total, what) as progress:
            yield progress.advance

    @staticmethod
    def _budget(values: list[Any] | None, several: bool) -> Any:
        return values if values is None or several else values[0]


def task_of_loss(loss: str) -> Task:
    """Return the task of a loss."""
    name = loss.partition(":")[0]
    return next(Task(task) for task, names in LOSSES.items() if name in names)


def _loss(text: str) -> Any:
    from levelprox import losses

    name, _, parameter = text.partition(":")
    if not parameter:
        return name
    return losses.Huber(float(parameter)) if name == "huber" else losses.Quantile(float(parameter))


def _is_checkpoint(path: Path) -> bool:
    """Return whether the header of a file is that of a checkpoint, damaged or not."""
    from levelprox.io.checkpoint import FORMAT

    with reading(path), open(path, "rb") as file:
        begin = file.read(8)  # length of the header
        return FORMAT.encode() in file.read(min(int.from_bytes(begin, "little"), 2**20))


@dataclass(frozen=True)
class Checkpointing:
    """Checkpoint of a fit: its file, how often it is written, and whether to resume from it."""

    path: Path | None
    every: float | None
    resume: bool
    restart: bool

    def __post_init__(self) -> None:
        if self.resume and self.restart:
            raise UsageError("give --resume or --restart, not both")
        given = {"resume": self.resume, "restart": self.restart, "checkpoint-every": self.every is not None}
        if self.path is None and any(given.values()):
            raise UsageError(f"--{next(name for name in given if given[name])} needs --checkpoint PATH")

    def check(self) -> None:
        """Raise CommandError if a checkpoint exists without --resume or --restart, or the file is no checkpoint."""
        existing = [] if self.resume else self._existing_files()
        for path in existing:
            if not _is_checkpoint(path):
                raise CommandError(f"{path} is not a checkpoint; choose another name", Exit.CANNOT_CREATE)
        if existing and not self.restart:
            raise CommandError(
                f"{existing[0]} already exists; --resume continues from it, --restart replaces it", Exit.CANNOT_CREATE
            )

    def begin(self) -> None:
        """With --restart, remove the checkpoint just before the fit, unless another run holds it."""
        self.check()
        if self.path is None or not (self.restart and self._existing_files()):
            return
        from levelprox.io.checkpoint import CheckpointFile

        with CheckpointFile(self.path) as file:
            file.path.unlink(missing_ok=True)
            file.previous.unlink(missing_ok=True)

    def _existing_files(self) -> list[Path]:
        if self.path is None:
            return []
        return [one for one in (self.path, self.path.with_name(f"{self.path.name}.previous")) if one.exists()]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of an estimator."""
        if self.path is None:
            return {}
        from levelprox.io.checkpoint import Checkpoint

        every = {} if self.every is None else {"every": self.every}
        return {"checkpoint": Checkpoint(self.path, **every), "resume": self.resume}


@dataclass(frozen=True)
class Backend:
    """Where the data of a fit are and where it runs; by default in the memory of this process.

    Attributes
    ----------
    stream : int, optional
        Rows of a batch; each batch is read once.
    dask : str, optional
        Address of a Dask cluster.
    chunked : bool
        Whether the file is read in chunks.
    device : str, optional
        A device of torch.
    threads : int, optional
        Maximal number of threads.
    """

    stream: int | None = None
    dask: str | None = None
    chunked: bool = False
    device: str | None = None
    threads: int | None = None

    def check(self, chooses: bool, checkpoint: Path | None, report: Path | None) -> None:
        """Raise UsageError for options that contradict each other."""
        options = {
            "--stream": self.stream is not None,
            "--dask": self.dask is not None,
            "--chunked": self.chunked,
            "--device": self.device is not None,
        }
        given = [name for name, is_given in options.items() if is_given]
        if len(given) > 1:
            raise UsageError(f"give {given[0]} or {given[1]}, not both")
        if self.stream is not None and (chooses or checkpoint is not None or report is not None):
            raise UsageError("--stream reads the data once: it goes with neither --cv, --checkpoint nor --report")
        if (self.dask is not None or self.chunked) and report is not None:
            raise UsageError(f"--report needs the data in memory: it does not go with {given[0]}")
        if self.dask is not None:
            local_workers(self.dask)
        if self.device is not None and find_spec("torch") is None:
            raise UsageError("--device needs torch: pip install 'levelprox[gpu]'")

    def check_columns(self, given: Mapping[str, object]) -> None:
        """Raise UsageError for options about columns that need data in memory."""
        for option, value in given.items():
            if value is not None and (self.stream is not None or self.dask is not None or self.chunked):
                raise UsageError(f"{option} needs the data in memory: no --stream, --dask or --chunked")

    @property
    def is_remote(self) -> bool:
        """Whether the data are not in memory as a whole, or are on a device."""
        return self.stream is not None or self.dask is not None or self.chunked or self.device is not None

    @property
    def takes_folders(self) -> bool:
        """Whether the data may be a folder of files."""
        return self.dask is not None or self.chunked
