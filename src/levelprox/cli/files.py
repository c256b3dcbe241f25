"""The files of a command: inputs that can be read, outputs that can be written, found out before any work is done."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from levelprox.cli.exits import CommandError, Exit, UsageError, of_os_error

Made = TypeVar("Made")


def check_input(path: Path) -> None:
    """Raise unless there is a file that can be read."""
    with reading(path):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise CommandError(f"{path} is a directory, not a file", Exit.NO_INPUT)
    if not os.access(path, os.R_OK):
        raise CommandError(f"{path} may not be read: permission denied", Exit.NO_INPUT)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None], force: bool) -> None:
    """Raise unless every output can be written where it is wanted, and is neither an input nor there already."""
    given = [path for path in outputs if path is not None]
    for i, path in enumerate(given):
        _check_output(path, force)
        if any(_same(path, other) for other in given[:i]):
            raise UsageError(f"{path} is asked for twice")
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
            raise CommandError(f"{path} is there already; --force replaces it", Exit.CANNOT_CREATE)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CommandError(f"{path} cannot be written: permission denied in {directory}", Exit.CANNOT_CREATE)


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.abspath(one) == os.path.abspath(other)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the system while a file is read."""
    try:
        yield
    except OSError as error:
        code = of_os_error(error, Exit.NO_INPUT)
        raise CommandError(f"{path} cannot be read: {_reason(error)}", code) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the system while a file is written."""
    try:
        yield
    except FileExistsError as error:
        raise CommandError(f"{path} is there already; --force replaces it", Exit.CANNOT_CREATE) from error
    except OSError as error:
        code = of_os_error(error, Exit.CANNOT_CREATE)
        raise CommandError(f"{path} cannot be written: {_reason(error)}", code) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def write_text(path: Path, parts: Iterable[str], force: bool) -> None:
    """Write a text whole, or not at all."""
    from levelprox.io import atomic

    with writing(path):
        atomic.write(path, (part.encode("utf-8", "surrogateescape") for part in parts), overwrite=force)


def read(path: Path, work: Callable[[], Made]) -> Made:
    """What `work` makes of a file."""
    with reading(path):
        return work()
