"""Files of a command: checks before any work, reading of data, names of features and classes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli import _parsing as parsing
from levelprox.cli._parsing import Format, Task
from levelprox.cli._process import CommandError, Exit, UsageError, print_notice, reading, writing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levelprox.io.data import Data, Reading


def check_input(path: Path) -> None:
    """Raise CommandError unless the path is a readable file."""
    with reading(path):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise CommandError(f"{path} is a directory, not a file", Exit.NO_INPUT)
    if not os.access(path, os.R_OK):
        raise CommandError(f"{path} may not be read: permission denied", Exit.NO_INPUT)


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


def reading_options(
    target: str | None = None,
    drop: list[str] | None = None,
    weight: str | None = None,
    format: Format | None = None,
    no_header: bool = False,
    separator: str | None = None,
    zero_based: bool = False,
    offset: str | None = None,
    exposure: str | None = None,
    categorical: str | None = None,
    impute: parsing.Imputing | None = None,
) -> Reading:
    """Return the settings for reading data files from the options of a command."""
    from levelprox.io.data import Reading

    separator = {"\\t": "\t", "tab": "\t"}.get(separator or "", separator)
    if separator is not None and (len(separator) != 1 or separator in '\r\n"'):
        raise UsageError(f"--separator must be one character, got {separator!r}")
    kind: Any = None if format is None else format.value
    filled: Any = None if impute is None else impute.value
    one_hot = parsing.categorical(categorical)
    return Reading(
        target,
        kind,
        tuple(drop or ()),
        weight,
        not no_header,
        separator,
        zero_based,
        offset,
        exposure,
        one_hot if isinstance(one_hot, str) else tuple(one_hot),
        filled,
    )


def read_training(path: Path, how: Reading) -> Data:
    """Read the training data."""
    from levelprox.io.data import read_data

    with reading(path):
        return read_data(path, how=how)


def read_for_model(model: Any, path: Path, how: Reading, needs_target: bool, quiet: bool = False) -> Data:
    """Read data with the features of a model, by name if the model has feature names, else by position."""
    from levelprox.io.data import read_data

    names = getattr(model, "feature_names_in_", None)
    known = model.n_features_in_ if names is None else [str(name) for name in names]
    if names is not None and (how.format or _format(path)) in ("libsvm", "npz"):
        known = model.n_features_in_
    how = replace(how, preprocessing=getattr(model, "preprocessing_", None))
    with reading(path):
        data = read_data(path, features=known, needs_target=needs_target, how=how)
    if data.left_out and not quiet and needs_target:
        print_notice(
            f"levelprox: {path}: not used: {', '.join(data.left_out[:10])}{', …' if len(data.left_out) > 10 else ''}"
        )
    return data


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


def _format(path: Path) -> str:
    from levelprox.io.data import format_of

    return format_of(path)


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

    def class_weight(self, option: str, given: Mapping[str, float]) -> dict[Any, float]:
        """Return a number for each named class."""
        import numpy as np

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


def infer_task_from_target(y: NDArray[Any]) -> tuple[Task, str]:
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
