"""Names in the options of a model: which features, and which classes, they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levelprox.io.data import Data

_SHOWN = 8  # names in an error


@dataclass(frozen=True, eq=False)
class Known:
    """What the options of a model may name.

    Attributes
    ----------
    path : Path
        The data.
    count : int
        How many features there are.
    names : sequence of str, optional
        Of the features; x0, x1 and so on where they have none.
    labels : ndarray, optional
        Of classes; each may be there many times.
    parts : mapping of str to sequence of str
        Columns of the file that have become several features, or one of another name.
    by_index : bool
        Whether the estimator sees no names.
    """

    path: Path
    count: int
    names: Sequence[str] | None
    labels: NDArray[Any] | None = None
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_index: bool = False

    @classmethod
    def of(cls, data: Data, labels: NDArray[Any], by_index: bool = False) -> Known:
        """Those of data in memory."""
        parts = {} if data.preprocessing is None else data.preprocessing.parts
        return cls(data.path, data.shape[1], data.feature_names, labels, parts, by_index)

    def features(self, option: str, given: Iterable[str]) -> list[str] | list[int]:
        """The features of these names, as an estimator takes them: by name, else by index."""
        found = [one for name in given for one in self._of(option, name)]
        if self.names is not None and not self.by_index:
            return found
        places = {name: j for j, name in enumerate(self._called)}
        return [places[name] for name in found]

    def values(self, option: str, given: Mapping[str, float]) -> dict[Any, float]:
        """A number for each feature that is named; that of a column is for each of its features."""
        return {one: value for name, value in given.items() for one in self.features(option, [name])}

    def costs(self, option: str, given: Mapping[str, float]) -> dict[str, float]:
        """The same by name alone."""
        return {one: value for name, value in given.items() for one in self._of(option, name)}

    def class_weight(self, option: str, given: Mapping[str, float]) -> dict[Any, float]:
        """A number for each class that is named."""
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
        if f"column_{name}" in self._called:  # of a file without a header
            return [f"column_{name}"]
        raise self._unknown(option, name, "feature", [*self.parts, *self._called])

    def _unknown(self, option: str, name: str, what: str, there: Sequence[str]) -> CommandError:
        same = [one for one in there if one.lower() == name.lower()]
        near = same or get_close_matches(name, there, n=1, cutoff=0.5)
        more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, there[:_SHOWN]))}{more}"
        return CommandError(f"{option}: {name!r} is no {what} of {self.path}; {hint}", Exit.DATA)
