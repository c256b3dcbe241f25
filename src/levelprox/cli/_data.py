"""Files of a command: checks before any work, checkpoints, reading of data, names of features and classes."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from levelprox.cli._options import Options, Task
from levelprox.cli._process import CommandError, Exit, UsageError, print_notice, reading, writing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levelprox.io.data import Data, Reading

_LENGTH_BYTES, _MAX_HEADER_BYTES = 8, 2**20  # of the header of a model or checkpoint


def check_input(path: Path) -> None:
    """Raise CommandError unless the path is a readable file."""
    with reading(path):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise CommandError(f"{path} is a directory, not a file", Exit.NO_INPUT)
    if not os.access(path, os.R_OK):
        raise CommandError(f"{path} may not be read: permission denied", Exit.NO_INPUT)


def check_files(inputs: Iterable[Path | None], outputs: Iterable[Path | None] = (), force: bool = False) -> None:
    """Check the files of a command before any work: `check_input` for each input, then `check_outputs`."""
    given = [path for path in inputs if path is not None]
    for path in given:
        check_input(path)
    check_outputs(outputs, given, force)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None], force: bool) -> None:
    """Raise CommandError unless every output can be written, is no input, and does not exist yet (or `force`)."""
    given = [path for path in outputs if path is not None]
    for i, path in enumerate(given):
        _check_output(path, force)
        if any(_same(path, other) for other in given[:i]):
            raise UsageError(f"{path} is given twice")
        if any(_same(path, other) for other in inputs if other is not None):
            raise UsageError(f"{path} is an input; it is not overwritten")


def _check_output(path: Path, force: bool) -> None:
    directory = path.parent
    if path.is_dir():
        raise CommandError(f"{path} is a directory; give the name of a file", Exit.CANNOT_CREATE)
    if not directory.is_dir():
        raise CommandError(f"{path} cannot be written: there is no directory {directory}", Exit.CANNOT_CREATE)
    if os.path.lexists(path):
        if path.exists() and not path.is_file():
            raise CommandError(f"{path} is not a plain file; it is not replaced", Exit.CANNOT_CREATE)
        if not force:
            raise CommandError(f"{path} already exists; --force replaces it", Exit.CANNOT_CREATE)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CommandError(f"{path} cannot be written: permission denied in {directory}", Exit.CANNOT_CREATE)


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.abspath(one) == os.path.abspath(other)


def write_text(path: Path, parts: Iterable[str], force: bool) -> None:
    """Write text to a file atomically."""
    from levelprox.io import atomic

    with writing(path):
        atomic.write(path, (part.encode("utf-8", "surrogateescape") for part in parts), overwrite=force)


def container_header(path: Path) -> bytes:
    """Return the header of a model file or checkpoint, damaged or not; nothing of another file."""
    with reading(path), open(path, "rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        return file.read(min(length, _MAX_HEADER_BYTES)) if file.peek(1)[:1] == b"{" else b""


def check_checkpoint(options: Options) -> None:
    """Raise CommandError if a checkpoint exists without --resume or --restart, or the file is no checkpoint."""
    from levelprox.io.checkpoint import FORMAT

    existing = [] if options.resume else _checkpoint_files(options)
    for path in existing:
        if FORMAT.encode() not in container_header(path):
            raise CommandError(f"{path} is not a checkpoint; choose another name", Exit.CANNOT_CREATE)
    if existing and not options.restart:
        raise CommandError(
            f"{existing[0]} already exists; --resume continues from it, --restart replaces it", Exit.CANNOT_CREATE
        )


def _checkpoint_files(options: Options) -> list[Path]:
    path = options.checkpoint
    return [] if path is None else [one for one in (path, path.with_name(f"{path.name}.previous")) if one.exists()]


def begin_checkpoint(options: Options) -> None:
    """With --restart, remove the checkpoint just before the fit, unless another run holds it."""
    check_checkpoint(options)
    if options.checkpoint is None or not (options.restart and _checkpoint_files(options)):
        return
    from levelprox.io.checkpoint import CheckpointFile

    with CheckpointFile(options.checkpoint) as file:
        file.path.unlink(missing_ok=True)
        file.previous.unlink(missing_ok=True)


def checkpoint_parameters(options: Options) -> dict[str, Any]:
    """Return the parameters of an estimator for the checkpoint."""
    if options.checkpoint is None:
        return {}
    from levelprox.io.checkpoint import Checkpoint

    every = {} if options.checkpoint_every is None else {"every": options.checkpoint_every}
    return {"checkpoint": Checkpoint(options.checkpoint, **every), "resume": options.resume}


def print_resume_command(checkpoint: Path | None, force: bool) -> None:
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


def reading_options(options: Options) -> Reading:
    """Return the settings for reading data files from the options of a command."""
    from levelprox.io.data import Reading

    return Reading(
        target=options.target,
        format=None if options.format is None else cast(Any, options.format.value),
        drop=tuple(options.drop or ()),
        weight=options.weight,
        header=not options.no_header,
        separator=options.separator,
        zero_based=options.zero_based,
        offset=options.offset,
        exposure=options.exposure,
        categorical=options.categorical or (),
        impute=None if options.impute is None else cast(Any, options.impute.value),
    )


def read(path: Path, how: Reading, features: Sequence[str] | int | None = None, needs_target: bool = True) -> Data:
    """Read a data file; with the features of other data, given by names or by their number."""
    from levelprox.io.data import read_data

    with reading(path):
        return read_data(path, features=features, needs_target=needs_target, how=how)


def read_test(path: Path, data: Data, how: Reading) -> Data:
    """Read test data with the features and the preprocessing of the training data."""
    return read(path, replace(how, preprocessing=data.preprocessing), data.feature_names or data.shape[1])


def read_for_model(model: Any, path: Path, how: Reading, needs_target: bool, quiet: bool = False) -> Data:
    """Read data with the features of a model, by name if the model has feature names, else by position."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or format_of_file(path, how) in ("libsvm", "npz"):
        known = model.n_features_in_
    else:
        known = [str(name) for name in names]
    data = read(path, replace(how, preprocessing=getattr(model, "preprocessing_", None)), known, needs_target)
    if data.left_out and not quiet and needs_target:
        print_notice(
            f"levelprox: {path}: not used: {', '.join(data.left_out[:10])}{', …' if len(data.left_out) > 10 else ''}"
        )
    return data


def format_of_file(path: Path, how: Reading) -> str:
    """Return the format of a data file: the given one, or that of its name."""
    from levelprox.io.data import format_of

    return how.format or format_of(path)


def features_for_model(model: Any, data: Data) -> Any:
    """Return X, as an array without column names if the model has no feature names."""
    has_names = getattr(model, "feature_names_in_", None) is not None
    return data.X.to_numpy() if hasattr(data.X, "to_numpy") and not has_names else data.X


@contextmanager
def errors_as_bad_data() -> Iterator[None]:
    """Turn a ValueError of scikit-learn about the data into a CommandError."""
    try:
        yield
    except ValueError as error:
        if type(error).__module__.startswith("levelprox"):
            raise
        raise CommandError(str(error), Exit.DATA) from error


_MAX_NAMES_SHOWN = 8  # in an error
_MAX_INTEGER_CLASSES = 20  # more different whole numbers are taken for quantities


@dataclass(frozen=True, eq=False)
class NameLookup:
    """Features and classes that options may name.

    Attributes
    ----------
    path : Path
        The data file, for error messages.
    count : int
        Number of features.
    names : sequence of str, optional
        Names of the features; by default x0, x1, ...
    labels : ndarray, optional
        Labels of the samples, with repetitions.
    parts : mapping of str to sequence of str
        Features made from each column of the file, where their names differ from that of the column.
    by_index : bool
        Whether the estimator receives no feature names.
    """

    path: Path
    count: int
    names: Sequence[str] | None
    labels: NDArray[Any] | None = None
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_index: bool = False

    @classmethod
    def of(cls, data: Data, labels: NDArray[Any], by_index: bool = False) -> NameLookup:
        """Return the names of data in memory."""
        parts = {} if data.preprocessing is None else data.preprocessing.parts
        return cls(data.path, data.shape[1], data.feature_names, labels, parts, by_index)

    def features(self, option: str, given: Iterable[str]) -> list[str] | list[int]:
        """Return the features with these names: names, or indices if the estimator has no names."""
        found = [one for name in given for one in self._of(option, name)]
        if self.names is not None and not self.by_index:
            return found
        places = {name: j for j, name in enumerate(self._called)}
        return [places[name] for name in found]

    def values(self, option: str, given: Mapping[str, float]) -> dict[Any, float]:
        """Return a number for each feature; the number of a column is used for all of its features."""
        return {one: value for name, value in given.items() for one in self.features(option, [name])}

    def costs(self, option: str, given: Mapping[str, float]) -> dict[str, float]:
        """Return the same by name."""
        return {one: value for name, value in given.items() for one in self._of(option, name)}

    def class_weight(self, option: str, given: Mapping[str, float] | str) -> dict[Any, float] | str:
        """Return a number for each named class; "balanced" is returned as it is."""
        import numpy as np

        if isinstance(given, str):
            return given

        labels = [] if self.labels is None else np.unique(self.labels).tolist()
        words = {str(label): label for label in labels}
        words |= {word.lower(): label for word, label in words.items() if isinstance(label, bool)}
        found: dict[Any, float] = {}
        for word, weight in given.items():
            if word not in words:
                raise self._unknown(option, word, "class", [str(label) for label in labels])
            found[words[word]] = weight
        return found

    @property
    def _called(self) -> Sequence[str]:
        return [f"x{j}" for j in range(self.count)] if self.names is None else self.names

    def _of(self, option: str, name: str) -> Sequence[str]:
        if name in self._called:
            return [name]
        if name in self.parts:
            return self.parts[name]
        if f"column_{name}" in self._called:  # a file without a header
            return [f"column_{name}"]
        raise self._unknown(option, name, "feature", [*self.parts, *self._called])

    def _unknown(self, option: str, name: str, what: str, there: Sequence[str]) -> CommandError:
        same = [one for one in there if one.lower() == name.lower()]
        near = same or get_close_matches(name, there, n=1, cutoff=0.5)
        more = f" and {len(there) - _MAX_NAMES_SHOWN} more" if len(there) > _MAX_NAMES_SHOWN else ""
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"there are {', '.join(map(repr, there[:_MAX_NAMES_SHOWN]))}{more}"
        )
        return CommandError(f"{option}: {name!r} is no {what} of {self.path}; {hint}", Exit.DATA)


def infer_task_from_target(y: Any) -> tuple[Task, str]:
    """Return the task that the target suggests, and the reason."""
    import numpy as np

    if y.dtype.kind not in "iuf":
        return Task.CLASSIFICATION, "the target holds text or booleans"
    values = np.unique(y)
    if values.size > _MAX_INTEGER_CLASSES or np.any(values != np.floor(values)):
        return Task.REGRESSION, f"the target has {values.size} different values"
    words = ", ".join(f"{one:g}" for one in values)
    if values.size == 1:
        return Task.CLASSIFICATION, f"the target has the one value {words}"
    return Task.CLASSIFICATION, f"the target has the {values.size} values {words}"


def as_classes(y: NDArray[Any]) -> NDArray[Any]:
    """Return the labels; whole numbers are converted to integers (1, not 1.0)."""
    import numpy as np

    if y.dtype.kind == "f" and np.all(np.isfinite(y)) and np.all(y == np.floor(y)) and np.all(np.abs(y) < 2**53):
        return y.astype(np.int64)
    return y


def infer_task(options: Options, likely: Task, why: str) -> Task:
    """Return the task from the options, or else the likely one, and print the reason.

    Parameters
    ----------
    options : Options
    likely, why
        As from `infer_task_from_target`.
    """
    if options.known_task is None and not options.quiet:
        print_notice(f"levelprox: {likely}, because {why} (--task overrides this)")
    if options.known_task is Task.CLASSIFICATION and likely is Task.REGRESSION:
        warnings.warn(f"{why}: each of them is a class of its own", stacklevel=2)
    return options.known_task or likely


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


def score_of(model: Any, data: Data, task: Task) -> float:
    """Return the score of a model on data."""
    with errors_as_bad_data():
        return float(model.score(data.X, labels_of(data, task), data.weight, **data.more))


def page_of(model: Any, data: Data, test: Data | None, task: Task, fits: Sequence[Any] | None = None) -> str:
    """Return the report page of a model, or of fits for several budgets."""
    from levelprox.report.page import page

    samples: Any = None if test is None else (test.X, labels_of(test, task))
    return page(
        model,
        data.X,
        labels_of(data, task),
        test=samples if test is None or test.weight is None else (*samples, test.weight),
        sample_weight=data.weight,
        fit_params=data.more or None,
        test_params=None if test is None else test.more or None,
        fits=fits,
        title=data.path.name,
    )
