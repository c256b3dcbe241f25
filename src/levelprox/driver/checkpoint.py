"""Checkpoints: the state of a run, and of the runs inside it, written to a file from time to time.

A run saves a state, plain data, after each step; nothing happens to it unless a checkpoint was requested. A run that is
started with the state of another continues from there and ends with the same bits: everything between two steps is
a function of the state and the problem alone.

A search has no small state. It is a sequence of units of work whose results determine the next ones (`Replay`): a
resumed search is run again with the saved results of units of work, and computes only the rest.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from levelprox.exceptions import CheckpointError, CheckpointWarning, FileFormatError, InvalidInputError, warn
from levelprox.io import checkpoint as files
from levelprox.io.checkpoint import Checkpoint, CheckpointFile
from levelprox.io.container import Contents, decode, encode

Place = str | os.PathLike[str]
Value = TypeVar("Value")


class SavedState:
    """The last state of a run, and those of the runs inside it.

    Parameters
    ----------
    writer : Writer, optional
        Writes it to a file.

    Attributes
    ----------
    state : object
        Plain data; None before the first step.
    parts : dict of str to SavedState
    """

    def __init__(self, writer: Writer | None = None) -> None:
        self.writer = writer
        self.state: Any = None
        self.parts: dict[str, SavedState] = {}

    def keep(self, state: object) -> None:
        """Save a state."""
        self.state = state
        if self.writer is not None:
            self.writer.offer()

    def part(self, name: str) -> SavedState:
        """Return the states of a run inside this one."""
        if name not in self.parts:
            self.parts[name] = SavedState(self.writer)
        return self.parts[name]

    def forget(self, name: str) -> None:
        """Discard the states of a run inside this one, whose result is now part of this one's state."""
        self.parts.pop(name, None)

    @property
    def idle(self) -> bool:
        """True if no checkpoint was requested."""
        return self.writer is None

    @property
    def advice(self) -> str:
        """The sentence that says how to resume a run that was cut short; empty without a checkpoint."""
        return "" if self.writer is None else f" Its state is saved; resume={self.writer.name!r} continues."

    def as_tree(self) -> dict[str, Any]:
        """Return all states as plain data."""
        return {"state": self.state, "parts": {name: part.as_tree() for name, part in self.parts.items()}}

    def take(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `as_tree` returned."""
        self.state = tree["state"]
        for name, part in tree["parts"].items():
            self.part(name).take(part)


class Writer:
    """Writes states to a file, from time to time.

    Parameters
    ----------
    file : CheckpointFile
    place : Checkpoint
        As given.
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
        self.saved = SavedState(self)
        self.written = time.monotonic()
        self.pending = False

    def offer(self) -> None:
        """Write the states if the last time is long enough ago."""
        self.pending = True
        if time.monotonic() - self.written >= self.every:
            self.write()

    def write(self) -> None:
        """Write the states; if that fails, the run continues, with a warning."""
        try:
            self.file.write(self._contents())
        except (OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or "not enough memory"
            warn(
                f"{self.name}: the state could not be written: {why}. The run continues; "
                f"{'the previous state is unchanged' if self.file.exists() else 'no state is saved'}",
                CheckpointWarning,
            )
        self.written, self.pending = time.monotonic(), False

    def begin(self) -> None:
        """Write an empty state before the run starts: a file that cannot be written is an error now."""
        try:
            self.file.write(self._contents())
        except OSError as error:
            raise CheckpointError(f"{self.name}: no checkpoint can be written there: {error.strerror}") from error

    def resume_from(self, contents: Contents, name: Place) -> None:
        """Take the states of an earlier run, which must have been a run of the same."""
        try:
            identity = json.loads(contents.metadata["run"])
            for key in {**self.identity, **identity}:
                before, now = identity.get(key), self.identity.get(key)
                if before != now:
                    raise CheckpointError(f"{name}: the checkpoint is of another run: {_difference(key, before, now)}")
            self.saved.take(decode(contents.metadata["journal"], contents.arrays, self.kinds, str(name)))
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
            raise FileFormatError(f"{name}: this is not the state of a run: {error}") from error

    def _contents(self) -> Contents:
        text, arrays = encode(self.saved.as_tree(), self.kinds)
        about = {
            "format": files.FORMAT,
            "format_version": str(files.VERSION),
            "levelprox": metadata.version("levelprox"),
            "run": json.dumps(self.identity),
        }
        return Contents({**about, "journal": text}, arrays)


class Replay:
    """Units of work whose results are saved, and not computed again in a resumed run.

    Parameters
    ----------
    saved : SavedState
    memory : callable
        Returns what units of work have left in memory besides their results, as plain data; None if a limit has cut the
        last one short, which is then not saved.
    restore : callable
        Called with that after the last piece that is known.
    """

    def __init__(self, saved: SavedState, memory: Callable[[], Any], restore: Callable[[Any], None]) -> None:
        self.saved, self.memory, self.restore = saved, memory, restore
        known = saved.state or {"results": (), "behind": None}
        self.results: list[tuple[Any, bool]] = list(known["results"])  # and whether it is the last of its repetitions
        self.behind: Any = known["behind"]
        self.place = 0

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        """Apply a step until its second result is True, from the last result that is known."""
        last = False
        if self.place < len(self.results):
            at, last = self.results[self.place]
            if self.place == len(self.results) - 1:
                self.restore(self.behind)
        while not last:
            at, last = step(at)
            self.results[self.place :] = [(at, last)]
            behind = self.memory()
            if behind is not None:
                self.saved.keep({"results": tuple(self.results), "behind": behind})
        self.place += 1
        return at


@contextmanager
def open_checkpoint(
    checkpoint: Place | Checkpoint | SavedState | None,
    resume: bool | Place,
    identity: Callable[[], Mapping[str, str]],
    kinds: Iterable[type],
) -> Iterator[SavedState]:
    """Open a checkpoint until the block ends; SIGTERM interrupts what runs in it.

    Parameters
    ----------
    checkpoint : path-like, Checkpoint or SavedState, optional
        The file; or the part of the run that this one is inside of.
    resume : bool or path-like
        Whether to continue from the states in the file, or from another file.
    identity : callable
        Returns what the run is a function of, as text; called only if there is a file.
    kinds : iterable of type
        The dataclasses that states consist of.
    """
    if isinstance(checkpoint, SavedState):
        yield checkpoint
        return
    place, origin = _places(checkpoint, resume)
    if place is None:
        yield SavedState()
        return
    with Termination(place.path), CheckpointFile(place.path) as file:
        writer = Writer(file, place, {"levelprox": metadata.version("levelprox"), **identity()}, kinds)
        its_own = origin is not None and Path(os.path.abspath(origin)) == file.path
        if file.exists() and not its_own:
            raise CheckpointError(
                f"{writer.name}: the checkpoint already exists; resume=True continues from it. To start again, remove "
                "it or choose another file"
            )
        if origin is not None and (resume is not True or file.exists()):
            writer.resume_from(file.read() if its_own else files.read(origin), origin)
            writer.pending = not its_own
        else:
            writer.begin()
        try:
            yield writer.saved
        except KeyboardInterrupt as error:
            text, advice = str(error), writer.saved.advice
            raise KeyboardInterrupt(text if advice in text else (text + advice).strip()) from error
        finally:
            if writer.pending:
                writer.write()


def _places(checkpoint: Place | Checkpoint | None, resume: bool | Place) -> tuple[Checkpoint | None, Place | None]:
    """Return where to write states, and where to read them from."""
    if not isinstance(resume, bool | str | os.PathLike):
        raise InvalidInputError(f"resume must be True, False or a path, got {resume!r}")
    if checkpoint is None:
        if resume is True:
            raise InvalidInputError("resume=True continues from the checkpoint: give checkpoint, or resume the path")
        return (None, None) if resume is False else (Checkpoint(resume), resume)
    place = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    return place, None if resume is False else place.path if resume is True else resume


def _difference(key: str, before: str | None, now: str | None) -> str:
    if before is None or now is None:
        return f"{key} is {'not there any more' if now is None else 'new'}"
    if before.startswith("#") and now.startswith("#"):
        return f"{key} are not the same"
    return f"{key} was {before[:100]}, now it is {now[:100]}"


class Termination:
    """Until the block ends, SIGTERM interrupts what runs in it; it is sent again afterwards, and ends the process.

    Nothing is changed if the program handles SIGTERM itself, or if this is not the main thread.

    Parameters
    ----------
    path : path-like
        The checkpoint, for the warning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name, self.path, self.received = os.fspath(path), Path(os.path.abspath(path)), False
        self.before: Any = None

    def __enter__(self) -> Termination:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self.before = signal.signal(signal.SIGTERM, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.before is None:
            return
        signal.signal(signal.SIGTERM, self.before)
        if self.received:
            try:
                kept = (
                    f"The state is saved; resume={self.name!r} continues"
                    if self.path.exists()
                    else "No work was done yet"
                )
                warn(f"Terminated. {kept}", CheckpointWarning)
            finally:  # also where warnings are errors
                os.kill(os.getpid(), signal.SIGTERM)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        """Interrupt; a second signal ends the process at once."""
        if self.received:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        self.received = True
        raise KeyboardInterrupt
