"""Files that are there as a whole or not at all.

What is written goes to a temporary file in the same directory, is brought to the disk, and only then takes the place of
what was there before: whoever reads the path, at any moment and after any crash, finds the old file or the new one.
"""

from __future__ import annotations

import os
import secrets
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
    """Write a file whole; an OSError leaves what was there before, and nothing beside it.

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
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        _write_through(temporary, parts)
        if keep is not None:
            _keep(target, Path(keep))
        if overwrite:
            os.replace(temporary, target)
        else:
            os.link(temporary, target)  # unlike a look beforehand, this cannot be overtaken
            os.unlink(temporary)
        sync_directory(target.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _keep(file: Path, kept: Path) -> None:
    """Give a file a second name, so that there is no moment at which it has none."""
    second = kept.with_name(f".{kept.name[:200]}.{secrets.token_hex(6)}.tmp")
    with suppress(FileNotFoundError):
        try:
            os.link(file, second)
            os.replace(second, kept)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without second names
            os.replace(file, kept)


def sync_directory(directory: Path) -> None:
    """Bring the names in a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_through(temporary: Path, parts: Iterable[Buffer]) -> None:
    """A new file with all parts, on the disk; readable by its owner alone until it is whole, then as new files are."""
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fchmod(file.fileno(), 0o666 & ~_umask())
        os.fsync(file.fileno())


def _umask() -> int:
    """The process's mask of permissions; there is no other way to ask than to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
