"""What a user asks of a model, and the estimator that does it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli import options
from levelprox.cli.exits import CommandError, Exit, UsageError
from levelprox.cli.files import reading
from levelprox.cli.options import LOSSES, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_CLASSES = 20  # of whole numbers, beyond which they are taken for quantities


@dataclass(frozen=True)
class Settings:
    """What a user asks of a model; lists where there are several budgets to look at."""

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

    @staticmethod
    def of(
        features: str | None,
        level: str | None,
        loss: str | None,
        constraint: str | None,
        feature_cost: str | None = None,
        budget: str | None = None,
        **more: Any,
    ) -> Settings:
        """The settings from the words of a command; options that do not go together are refused."""
        if (feature_cost is None) != (budget is None):
            raise UsageError("--feature-cost and --budget go together: give both, or neither")
        if budget is not None and level is not None:
            raise UsageError("--budget is for whole features: give --features or neither, not --level")
        if features is not None and level is not None:
            raise UsageError("give --features or --level, not both")
        if constraint is not None and level is None:
            raise UsageError("--constraint is for fits under a level: give --level, too")
        if loss is not None and more["task"] is not None and task_of_loss(options.loss(loss)) != more["task"]:
            raise UsageError(f"--loss {loss} is for {task_of_loss(loss)}")
        return Settings(
            loss=None if loss is None else options.loss(loss),
            features=None if features is None else options.counts(features),
            level=None if level is None else options.levels(level),
            constraint=None if constraint is None else options.constraint(constraint),
            feature_cost=None if feature_cost is None else options.feature_costs(feature_cost),
            budget=None if budget is None else options.budgets(budget),
            **more,
        )

    @property
    def single(self) -> bool:
        """Whether there is one budget, or none given."""
        return len(self.budget or self.features or self.level or [0]) == 1

    def estimator(self, task: Task, *, cv: int | None = None, **more: Any) -> Any:
        """The estimator that does what is asked; with `cv`, the one that chooses."""
        from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV

        kinds = {
            (Task.CLASSIFICATION, False): SparseClassifier,
            (Task.CLASSIFICATION, True): SparseClassifierCV,
            (Task.REGRESSION, False): SparseRegressor,
            (Task.REGRESSION, True): SparseRegressorCV,
        }
        wanted = {
            "loss": None if self.loss is None else _loss(self.loss),
            "n_features": self._budget(self.features, cv if self.budget is None else None),
            "level": self._budget(self.level, cv),
            "feature_cost": self.feature_cost,
            "budget": self._budget(self.budget, cv),
            "constraint": self.constraint,
            "cv": cv,
            "random_state": self.seed,
            "time_limit": self.time_limit,
            **more,
        }
        return kinds[task, cv is not None](
            fit_intercept=self.intercept,
            standardize=self.standardize,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=int(self.shows_progress),
            **{name: value for name, value in wanted.items() if value is not None},
        )

    @property
    def shows_progress(self) -> bool:
        """Whether to show how far a fit is: on a terminal, or where asked for."""
        return not self.quiet and (self.verbose or sys.stderr.isatty())

    @staticmethod
    def _budget(values: list[Any] | None, cv: int | None) -> Any:
        return values if values is None or cv is not None else values[0]


def task_of_loss(loss: str) -> Task:
    """What a loss is for."""
    name = loss.partition(":")[0]
    return next(Task(task) for task, names in LOSSES.items() if name in names)


def guessed_task(y: NDArray[Any]) -> tuple[Task, str]:
    """What a target is for, and why."""
    import numpy as np

    if y.dtype.kind not in "iuf":
        return Task.CLASSIFICATION, "the target holds words or truth values"
    values = np.unique(y)
    if values.size > _MOST_CLASSES or np.any(values != np.floor(values)):
        return Task.REGRESSION, f"the target has {values.size} different values"
    words = ", ".join(f"{one:g}" for one in values)
    if values.size == 1:
        return Task.CLASSIFICATION, f"the target has the one value {words}"
    return Task.CLASSIFICATION, f"the target has the {values.size} values {words}"


def as_classes(y: NDArray[Any]) -> NDArray[Any]:
    """Labels, whole numbers as integers: 1, not 1.0."""
    import numpy as np

    if y.dtype.kind == "f" and np.all(np.isfinite(y)) and np.all(y == np.floor(y)) and np.all(np.abs(y) < 2**53):
        return y.astype(np.int64)
    return y


def _loss(text: str) -> Any:
    from levelprox import losses

    name, _, parameter = text.partition(":")
    if not parameter:
        return name
    return losses.Huber(float(parameter)) if name == "huber" else losses.Quantile(float(parameter))


def _is_checkpoint(path: Path) -> bool:
    """Whether a file says that it is one, damaged or not."""
    from levelprox.io.checkpoint import FORMAT

    with reading(path), open(path, "rb") as file:
        begin = file.read(8)  # how long the header is
        return FORMAT.encode() in file.read(min(int.from_bytes(begin, "little"), 2**20))


@dataclass(frozen=True)
class Checkpointing:
    """Where the state of a fit is kept, how often, and whether to go on from it."""

    path: Path | None
    every: float | None
    resume: bool
    restart: bool

    def __post_init__(self) -> None:
        if self.resume and self.restart:
            raise UsageError("give --resume or --restart, not both")
        asked = {"resume": self.resume, "restart": self.restart, "checkpoint-every": self.every is not None}
        if self.path is None and any(asked.values()):
            raise UsageError(f"--{next(name for name in asked if asked[name])} needs --checkpoint PATH")

    def check(self) -> None:
        """Raise where a state is there and nothing is said of it, or something else is that is not to be lost."""
        there = [] if self.resume else self._there()
        for one in there:
            if not _is_checkpoint(one):
                raise CommandError(f"{one} is not a checkpoint; choose another name", Exit.CANNOT_CREATE)
        if there and not self.restart:
            raise CommandError(
                f"{there[0]} is there already; --resume goes on from it, --restart begins afresh", Exit.CANNOT_CREATE
            )

    def begin(self) -> None:
        """Remove a state that is not to be gone on from, unless another run holds it; just before the fit."""
        self.check()
        if self.path is None or not (self.restart and self._there()):
            return
        from levelprox.io.checkpoint import CheckpointFile

        with CheckpointFile(self.path) as file:
            file.path.unlink(missing_ok=True)
            file.previous.unlink(missing_ok=True)

    def _there(self) -> list[Path]:
        if self.path is None:
            return []
        return [one for one in (self.path, self.path.with_name(f"{self.path.name}.previous")) if one.exists()]

    def parameters(self) -> dict[str, Any]:
        """What an estimator is told."""
        if self.path is None:
            return {}
        from levelprox.io.checkpoint import Checkpoint

        every = {} if self.every is None else {"every": self.every}
        return {"checkpoint": Checkpoint(self.path, **every), "resume": self.resume}
