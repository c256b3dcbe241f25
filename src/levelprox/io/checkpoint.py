"""Checkpoints: the state of a run in a file, so that it can be resumed after a crash.

The last two states are kept, `path` and `path.previous`, each written atomically (atomic.py) and with a checksum
(container.py): after a crash at any moment one of them can be read. While a run uses a checkpoint, a lock on
`path.lock` keeps other runs out; it ends with the process.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from levelprox._validation import nonnegative
from levelprox.exceptions import (
    CheckpointError,
    CheckpointLockedError,
    CheckpointWarning,
    FileFormatError,
    InvalidInputError,
    warn,
)
from levelprox.io import atomic, container

FORMAT, VERSION = "levelprox checkpoint", 1


@dataclass(frozen=True)
class Checkpoint:
    """File for the state of a run, and how often it is written.

    Parameters
    ----------
    path : path-like
        The file. `path.previous` is the state before the last one; `path.lock` prevents two runs from writing to the
        file.
    every : float, default=60.0
        Seconds between two writes; 0 writes after every step. The last state is always written when the run ends.

    Examples
    --------
    >>> import os, tempfile
    >>> from levelprox import Checkpoint, LinearModel, Problem, constraints, solve
    >>> problem = Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), 1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "run.checkpoint"), every=0)
    ...     first = solve(problem, checkpoint=checkpoint)
    ...     again = solve(problem, checkpoint=checkpoint, resume=True)
    >>> bool((first.x == again.x).all())
    True
    """

    path: str | os.PathLike[str]
    every: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise InvalidInputError(f"checkpoint must be a path or a Checkpoint, got {self.path!r}")
        nonnegative("every", self.every)


class CheckpointFile:
    """The file of a checkpoint, held by this process.

    Parameters
    ----------
    path : path-like

    Attributes
    ----------
    is_whole : bool
        Whether the last state is known to be readable; if not, the previous one is not replaced by it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.is_whole = Path(os.path.abspath(path)), False
        self.previous = self.path.with_name(self.path.name + ".previous")
        self._lock_path = self.path.with_name(self.path.name + ".lock")
        self._lock = _locked(self._lock_path, self.path)
        atomic.sweep(self.path)
        atomic.sweep(self.previous)

    def exists(self) -> bool:
        """Return whether there is a state to resume from."""
        return self.path.exists() or self.previous.exists()

    def read(self) -> container.Contents:
        """Return the last readable state, with a warning if it is the previous one."""
        contents, place = _last(self.path)
        self.is_whole = place == self.path
        return contents

    def write(self, contents: container.Contents) -> None:
        """Write a state; the last one becomes the previous one.

        Raises
        ------
        OSError
            If it cannot be written; the previous files are unchanged.
        """
        atomic.write(self.path, container.pack(contents), keep=self.previous if self.is_whole else None)
        self.is_whole = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock."""
        with suppress(OSError):
            os.unlink(self._lock_path)
        os.close(self._lock)


def read(path: str | os.PathLike[str]) -> container.Contents:
    """Return the state in a file; if it is damaged, the previous one, with a warning.

    Raises
    ------
    CheckpointError
        If there is no readable state.
    """
    return _last(Path(path))[0]


def _last(place: Path) -> tuple[container.Contents, Path]:
    """Return the last readable state and its file."""
    found: list[str] = []
    for one in (place, place.with_name(place.name + ".previous")):
        try:
            contents = _read(one)
        except FileNotFoundError:
            found.append(f"{one}: there is no such file")
        except (FileFormatError, OSError) as error:
            found.append(str(error))
        else:
            if found:
                warn(f"{found[0]}; continuing from {one}, the previous state", CheckpointWarning)
            return contents, one
    raise CheckpointError(found[0] if found[1].endswith("no such file") else "; ".join(found))


def _read(path: Path) -> container.Contents:
    contents = container.unpack(path.read_bytes(), str(path))
    metadata = contents.metadata
    if metadata.get("format") != FORMAT:
        raise FileFormatError(f"{path}: this is no checkpoint, but a {metadata.get('format', 'file of another kind')}")
    if metadata.get("format_version") != str(VERSION):
        raise FileFormatError(
            f"{path}: written by levelprox {metadata.get('levelprox')} in format {metadata.get('format_version')}; "
            f"this one reads format {VERSION}"
        )
    return contents


def _locked(lock: Path, path: Path) -> int:
    """Lock a file for this process until it ends; a lock of another process is an error."""
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CheckpointError(f"{path}: no checkpoint can be written there: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
            os.close(handle)
            raise CheckpointLockedError(
                f"{path}: another run{f', process {holder},' if holder else ''} keeps its state there; wait for it, "
                "or choose another file"
            ) from error
        except OSError as error:
            os.close(handle)
            with suppress(OSError):
                os.unlink(lock)
            raise CheckpointError(f"{path}: files cannot be locked there: {error.strerror}") from error
        if _is_at(handle, lock):
            with suppress(OSError):  # a full disk; the number is only for messages
                os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
            return handle
        os.close(handle)  # its previous holder has just removed it


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
