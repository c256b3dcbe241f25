"""A folder of originals: files get there, checked and pinned, and are checked again on request."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.datasets import contents, download, pins
from experiments.datasets.errors import DataError
from experiments.datasets.originals import File
from levelprox.io.atomic import sync_directory


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and lock it against other downloads."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("wb")
    except OSError as error:
        raise DataError(f"{folder} cannot be written to: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(f"another `data get` is at work in {folder}") from error
        yield


def get(file: File, folder: Path, site: str) -> str:
    """Have the file in the folder, checked and pinned; says how that came about.

    Raises
    ------
    DataError
        It cannot be had, is not what it must be, or not what was pinned before.
    """
    path = folder / file.name
    pin = pins.read(folder).get(file.name)
    if path.exists():
        return _adopt(path, file) if pin is None else _confirm(path)
    url = f"{site.rstrip('/')}/{file.folder}/{file.name}"
    part = download.fetch(url, path)
    try:
        new = pins.Pin(pins.digest(part), part.stat().st_size, url)
        if pin is not None and new.sha256 != pin.sha256:
            raise DataError(_changed(path, new, pin))
        contents.check(part, file)
    except DataError as error:
        raise DataError(f"{error}; what came is in {_set_aside(path)}") from error
    _name(part, path, new)
    return f"downloaded, {new.bytes} bytes, SHA-256 {new.sha256}" + (" as pinned before" if pin else ", now pinned")


def state(file: File, folder: Path) -> str:
    """How a file of the folder is doing, in words: its bytes are compared with its pin.

    Raises
    ------
    DataError
        They differ, or there is no pin.
    """
    path, part = folder / file.name, download.partial(folder / file.name)
    if path.exists():
        return _confirm(path)
    return f"{part.stat().st_size} bytes have come" if part.exists() else "not there"


def _confirm(path: Path) -> str:
    pins.check(path, pins.read(path.parent))
    return "there, as pinned"


def _adopt(path: Path, file: File) -> str:
    """Record the checksum of a file that was put there by hand."""
    contents.check(path, file)
    pin = pins.Pin(pins.digest(path), path.stat().st_size, "")
    pins.add(path, pin)
    return f"was there, now pinned, SHA-256 {pin.sha256}"


def _name(part: Path, path: Path, pin: pins.Pin) -> None:
    """Give what was checked its pin and its name, once it is on the disk: no crash leaves half a file with a name."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    pins.add(path, pin)
    os.replace(part, path)
    sync_directory(path.parent)
    download.forget(path)


def _set_aside(path: Path) -> Path:
    """Rename a rejected file, so that the next download does not use it and it can be inspected."""
    rejected = path.with_name(f"{path.name}.rejected")
    os.replace(download.partial(path), rejected)
    download.forget(path)
    return rejected


def _changed(path: Path, new: pins.Pin, pin: pins.Pin) -> str:
    return (
        f"{new.url} has SHA-256 {new.sha256}, and had {pin.sha256} when it was pinned: the file has changed or "
        f"was damaged on its way; to take the new one, remove the entry of {path.name} in {path.parent / pins.FILE}"
    )
