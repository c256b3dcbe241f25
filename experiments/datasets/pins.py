"""Checksums of downloaded files: computed on the first download, stored next to the files, compared later."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.datasets.errors import DataError
from levelprox.io import atomic

FILE = "checksums.json"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Pin:
    """What a file was when it came.

    Attributes
    ----------
    sha256 : str
    bytes : int
    url : str
        Where it came from; empty for a file that was there already.
    """

    sha256: str
    bytes: int
    url: str


def read(folder: Path) -> dict[str, Pin]:
    """Return the recorded checksums of a folder, by file name."""
    path = folder / FILE
    try:
        content = json.loads(path.read_bytes())
        return {str(name): Pin(str(pin["sha256"]), int(pin["bytes"]), str(pin["url"])) for name, pin in content.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is no list of checksums; remove it to check all files and to record their checksums again"
        ) from error


def add(path: Path, pin: Pin) -> None:
    """Pin a file; the pins of the others stay."""
    folder = path.parent
    pins = {**read(folder), path.name: pin}
    content = {name: asdict(pins[name]) for name in sorted(pins)}
    atomic.write(folder / FILE, [json.dumps(content, indent=1).encode() + b"\n"])


def check_size(path: Path, pins: dict[str, Pin]) -> Pin:
    """Return the recorded checksum of a file, if there is one and the size agrees."""
    pin = pins.get(path.name)
    if pin is None:
        raise DataError(
            f"{path} has no checksum in {FILE}: "
            f"`python -m experiments data get all --dir {path.parent}` checks it and pins it, without a download"
        )
    size = path.stat().st_size
    if size != pin.bytes:
        raise DataError(f"{path} has {size} bytes, and had {pin.bytes} when it was pinned: {_remedy(path)}")
    return pin


def check(path: Path, pins: dict[str, Pin]) -> None:
    """Compare the bytes with the recorded checksum; once in a process, unless the file changes."""
    pin = check_size(path, pins)
    found = digest(path)
    if found != pin.sha256:
        raise DataError(f"{path} has SHA-256 {found}, and had {pin.sha256} when it was pinned: {_remedy(path)}")


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    stat = path.stat()
    return _digest(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@functools.cache
def _digest(path: Path, version: tuple[int, ...]) -> str:
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            hashed.update(block)
    return hashed.hexdigest()


def _remedy(path: Path) -> str:
    return (
        f"remove the file to download it again, or its entry in {path.parent / FILE} "
        "to have it checked and pinned as it is now"
    )
