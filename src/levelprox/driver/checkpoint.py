"""A journal: what a run has done so far, so that it can be gone on with.

A run tells its journal after each step what it would need to go on from there: its state, plain data. A journal may
have parts, for the runs inside a run. Where a checkpoint is asked for, the states are written to its file from time to
time, and at the end; else nothing happens to them.

A run that is begun with the state of another goes on from there and ends with the same bits, for whatever comes between
two steps is a function of the state and the problem alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from levelprox.driver.termination import Termination
from levelprox.exceptions import CheckpointError, CheckpointWarning, FileFormatError, InvalidInputError, warn
from levelprox.io import checkpoint as files
from levelprox.io.checkpoint import Checkpoint, CheckpointFile
from levelprox.io.container import Contents
from levelprox.io.plain import decode, encode

Place = str | os.PathLike[str]


class Journal:
    """What one run has done so far.

    Parameters
    ----------
    keeper : Keeper, optional
        Who writes it to a file.

    Attributes
    ----------
    state : object
        What the run said last; None before its first step.
    parts : dict of str to Journal
    """

    def __init__(self, keeper: Keeper | None = None) -> None:
        self.keeper = keeper
        self.state: Any = None
        self.parts: dict[str, Journal] = {}

    def keep(self, state: object) -> None:
        """From here on this is where to go on from."""
        self.state = state
        if self.keeper is not None:
            self.keeper.offer()

    def part(self, name: str) -> Journal:
        """The journal of a run inside this one."""
        if name not in self.parts:
            self.parts[name] = Journal(self.keeper)
        return self.parts[name]

    def forget(self, name: str) -> None:
        """The run inside has ended, and its result is part of this one's state."""
        self.parts.pop(name, None)

    @property
    def idle(self) -> bool:
        """Whether nobody will ever ask for the state."""
        return self.keeper is None

    @property
    def advice(self) -> str:
        """How to go on, for a run that is cut short; empty where nothing is kept."""
        return "" if self.keeper is None else f" Its state is kept: resume={self.keeper.name!r} goes on."

    def as_tree(self) -> dict[str, Any]:
        return {"state": self.state, "parts": {name: part.as_tree() for name, part in self.parts.items()}}

    def take(self, tree: Mapping[str, Any]) -> None:
        """Go on from what `as_tree` gave."""
        self.state = tree["state"]
        for name, part in tree["parts"].items():
            self.part(name).take(part)


class Keeper:
    """Writes a journal to a file, from time to time.

    Parameters
    ----------
    file : CheckpointFile
    place : Checkpoint
        As it was asked for.
    identity : dict of str to str
        What the run is a function of.
    kinds : iterable of type
        The dataclasses that states are made of.
    """

    def __init__(
        self, file: CheckpointFile, place: Checkpoint, identity: Mapping[str, str], kinds: Iterable[type]
    ) -> None:
        self.name, self.every = os.fspath(place.path), place.every
        self.file, self.identity, self.kinds = file, dict(identity), tuple(kinds)
        self.journal = Journal(self)
        self.written = time.monotonic()
        self.pending = False

    def offer(self) -> None:
        """There is something new; write it if it is time to."""
        self.pending = True
        if time.monotonic() - self.written >= self.every:
            self.write()

    def write(self) -> None:
        """Write what there is now; where that fails, the run goes on, with a warning."""
        try:
            self.file.write(self._contents())
        except (OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or "not enough memory"
            warn(
                f"{self.name}: the state could not be written: {why}. The run goes on; "
                f"{'what was kept before is still there' if self.file.exists() else 'nothing is kept'}",
                CheckpointWarning,
            )
        self.written, self.pending = time.monotonic(), False

    def begin(self) -> None:
        """Write the first state, of a run that has done nothing yet: what cannot be kept is better known now."""
        try:
            self.file.write(self._contents())
        except OSError as error:
            raise CheckpointError(f"{self.name}: no checkpoint can be written there: {error.strerror}") from error

    def go_on_from(self, contents: Contents, name: Place) -> None:
        """Take the state of an earlier run, which must have been a run of the same."""
        try:
            identity = json.loads(contents.metadata["run"])
            for key in {**self.identity, **identity}:
                before, now = identity.get(key), self.identity.get(key)
                if before != now:
                    raise CheckpointError(f"{name}: the checkpoint is of another run: {_difference(key, before, now)}")
            self.journal.take(decode(contents.metadata["journal"], contents.arrays, self.kinds, str(name)))
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
            raise FileFormatError(f"{name}: this is not the state of a run: {error}") from error

    def _contents(self) -> Contents:
        text, arrays = encode(self.journal.as_tree(), self.kinds)
        about = {
            "format": files.FORMAT,
            "format_version": str(files.VERSION),
            "levelprox": metadata.version("levelprox"),
            "run": json.dumps(self.identity),
        }
        return Contents({**about, "journal": text}, arrays)


@contextmanager
def keeping(
    checkpoint: Place | Checkpoint | Journal | None,
    resume: bool | Place,
    identity: Callable[[], Mapping[str, str]],
    kinds: Iterable[type],
) -> Iterator[Journal]:
    """The journal of a run, written to a file where that is asked for, until the block ends.

    Parameters
    ----------
    checkpoint : path-like, Checkpoint or Journal, optional
        Where; or the journal of the run that this one is inside of.
    resume : bool or path-like
        Whether to go on from what is there, or from another file.
    identity : callable
        What the run is a function of; asked for where something is kept only.
    kinds : iterable of type
        The dataclasses that states are made of.
    """
    if isinstance(checkpoint, Journal):
        yield checkpoint
        return
    place, origin = _places(checkpoint, resume)
    if place is None:
        yield Journal()
        return
    with Termination(place.path), CheckpointFile(place.path) as file:
        keeper = Keeper(file, place, {"levelprox": metadata.version("levelprox"), **identity()}, kinds)
        its_own = origin is not None and Path(os.path.abspath(origin)) == file.path
        if file.exists() and not its_own:
            raise CheckpointError(
                f"{keeper.name}: there is a checkpoint already; resume=True goes on from it. To begin again, remove it "
                "or choose another file"
            )
        if origin is not None and (resume is not True or file.exists()):
            keeper.go_on_from(file.read() if its_own else files.read(origin), origin)
            keeper.pending = not its_own
        else:
            keeper.begin()
        try:
            yield keeper.journal
        except KeyboardInterrupt as error:
            told, advice = str(error), keeper.journal.advice
            raise KeyboardInterrupt(told if advice in told else (told + advice).strip()) from error
        finally:
            if keeper.pending:
                keeper.write()


def _places(checkpoint: Place | Checkpoint | None, resume: bool | Place) -> tuple[Checkpoint | None, Place | None]:
    """Where the state is to be kept, and where it is to come from."""
    if not isinstance(resume, bool | str | os.PathLike):
        raise InvalidInputError(f"resume must be True, False or a path, got {resume!r}")
    if checkpoint is None:
        if resume is True:
            raise InvalidInputError("resume=True goes on from the checkpoint: give checkpoint, or resume the path")
        return (None, None) if resume is False else (Checkpoint(resume), resume)
    place = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    return place, None if resume is False else place.path if resume is True else resume


def _difference(key: str, before: str | None, now: str | None) -> str:
    if before is None or now is None:
        return f"{key} is {'not there any more' if now is None else 'new'}"
    if before.startswith("#") and now.startswith("#"):
        return f"{key} are not the same"
    return f"{key} was {before[:100]}, now it is {now[:100]}"
