"""Atomic writes: a file is complete or does not exist.

Data are written to a temporary file in the same directory and synced to the disk; then the file is renamed. A reader of
the path, at any moment and after any crash, finds the old file or the new one.
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
    """Write a file atomically; after an OSError the previous file is unchanged and no other file is left.

    Parameters
    ----------
    path : path-like
        A symbolic link is replaced, not followed.
    parts : iterable of bytes-like
        Contents, in order.
    overwrite : bool, default=True
        Whether an existing file may be replaced; otherwise it is a `FileExistsError`.
    keep : path-like, optional
        Name under which the replaced file is kept.
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
        # the error names the target, not the temporary file
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _beside(target: Path) -> Path:
    """Return a name in the same directory that no other process uses, short enough for any encoding."""
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.tmp")


def sweep(target: Path) -> None:
    """Remove temporary files of processes that were killed while writing this file; no process may be writing it."""
    begin = f".{target.name[:40]}."
    for one in target.parent.iterdir():
        if one.name.startswith(begin) and one.name.endswith(".tmp") and len(one.name) == len(begin) + 16:
            with suppress(OSError):
                os.unlink(one)


def _name(temporary: Path, target: Path) -> None:
    """Rename a file unless the name exists; unlike a check beforehand, this has no race."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.replace(temporary, target)


def _keep(file: Path, kept: Path) -> None:
    """Give a file a second name, so that it has a name at every moment."""
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
    """Sync the entries of a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _permissions(target: Path) -> int | None:
    """Return the permissions of the file to replace; None if there is none."""
    with suppress(FileNotFoundError):
        found = os.lstat(target).st_mode
        return stat.S_IMODE(found) if stat.S_ISREG(found) else None
    return None


def _write_through(temporary: Path, parts: Iterable[Buffer], mode: int | None) -> None:
    """Write a new file and sync it to the disk, with these permissions or those of new files."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o666 if mode is None else 0o600)
    with os.fdopen(handle, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
