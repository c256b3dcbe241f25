"""Files that are there as a whole or not at all.

What is written goes to a temporary file in the same directory, is brought to the disk, and only then takes the place of
what was there before: a reader of the path, at any moment and after any crash, finds the old file or the new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

Buffer = bytes | bytearray | memoryview


def write(
    path: str | os.PathLike[str],
    parts: Iterable[Buffer],
    *,
    overwrite: bool = True,
    keep: str | os.PathLike[str] | None = None,
) -> None:
    """Write a complete file; after an OSError the previous file is unchanged, and no temporary file remains.

    Parameters
    ----------
    path : path-like
        A symbolic link is replaced, not followed.
    parts : iterable of bytes-like
        What it is to hold, one after another.
    overwrite : bool, default=True
        Whether a file of this name may be replaced; else that is a `FileExistsError`.
    keep : path-like, optional
        Under which name to keep the file that is replaced.
    """
    target = Path(path)
    if not target.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    temporary = _beside(target)
    try:
        if not overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        _write_through(temporary, parts, _permissions(target))
        if keep is not None:
            _keep(target, Path(keep))
        if overwrite:
            os.replace(temporary, target)
        else:
            _name(temporary, target)
        sync_directory(target.parent)
    except OSError as error:
        # not the temporary name, which the user has not given
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _beside(target: Path) -> Path:
    """A name in the same directory that no other process uses, short enough for any characters."""
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.tmp")


def sweep(target: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left; no process may be writing it now."""
    begin = f".{target.name[:40]}."
    for one in target.parent.iterdir():
        if one.name.startswith(begin) and one.name.endswith(".tmp") and len(one.name) == len(begin) + 16:
            with suppress(OSError):
                os.unlink(one)


def _name(temporary: Path, target: Path) -> None:
    """Give a file its name, unless there is one of that name; unlike a look beforehand this cannot be overtaken."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.replace(temporary, target)


def _keep(file: Path, kept: Path) -> None:
    """Give a file a second name, so that there is no moment at which it has none."""
    second = _beside(kept)
    with suppress(FileNotFoundError):
        try:
            os.link(file, second)
            os.replace(second, kept)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without second names
            os.replace(file, kept)
        finally:
            with suppress(OSError):
                os.unlink(second)


def sync_directory(directory: Path) -> None:
    """Bring the names in a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _permissions(target: Path) -> int | None:
    """Who may read the file that is to be replaced; None where there is none."""
    with suppress(FileNotFoundError):
        found = os.lstat(target).st_mode
        return stat.S_IMODE(found) if stat.S_ISREG(found) else None
    return None


def _write_through(temporary: Path, parts: Iterable[Buffer], mode: int | None) -> None:
    """A new file with all parts, on the disk; with these permissions, or those that new files have."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o666 if mode is None else 0o600)
    with os.fdopen(handle, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
