"""Download a file completely or not at all, and resume an interrupted download.

The received bytes are in NAME.part, with the server's tags in NAME.part.json. The rest is requested by Range,
with If-Range: of a file that has changed since, or from a server that knows no ranges, all comes again.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.datasets.errors import DataError
from levelprox.io import atomic
from levelprox.report.progress import showing

PATIENCE = 60.0  # seconds without a byte
_BLOCK = 1_000_000
AGAIN = "run the same command again to resume"


@dataclass(frozen=True)
class Version:
    """What the server calls a file, and how large it is.

    Attributes
    ----------
    url : str
    validator : str
        Its ETag or the date of its last change; empty where the server gives none that can be relied on.
    total : int or None
        Bytes; None where the server does not say.
    """

    url: str
    validator: str
    total: int | None


def fetch(url: str, target: Path) -> Path:
    """Download the complete file to NAME.part next to the target, and return its path.

    Raises
    ------
    DataError
        There is no such host or file, the transfer was cut, the disk is full; what has come is kept.
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{url}: only http and https are known")
    part = partial(target)
    before = _remembered(part, url)
    had = part.stat().st_size if before is not None and part.exists() else 0
    if before is not None and had == before.total:
        return part
    with _opened(url, before, had) as response:
        if before is not None and _goes_on(response, before, had):
            _receive(response, before, part, had)
            return part
        if response.status == http.client.OK:
            _receive(response, _version(response, url), part, 0)
            return part
    if not had:
        raise DataError(f"{url}: the server answers {response.status} {response.reason}")
    forget(target)  # what came before is of no use: all of it again
    return fetch(url, target)


def partial(target: Path) -> Path:
    """Where a file is until it is whole."""
    return target.with_name(f"{target.name}.part")


def forget(target: Path) -> None:
    """Remove the partial file, so that the next download starts again."""
    part = partial(target)
    part.unlink(missing_ok=True)
    _memory(part).unlink(missing_ok=True)


def _memory(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _remembered(part: Path, url: str) -> Version | None:
    """Return the bytes received before, if the download can resume."""
    try:
        version = Version(**json.loads(_memory(part).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return version if version.url == url and version.validator else None


@contextmanager
def _opened(url: str, before: Version | None, had: int) -> Iterator[Any]:
    """Return the response of the server, also to an invalid range."""
    headers = {"User-Agent": "levelprox-experiments"}
    if before is not None and had:
        headers |= {"Range": f"bytes={had}-", "If-Range": before.validator}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            with error:
                raise DataError(f"{url}: the server answers {error.code} {error.reason}") from error
        response = error
    except urllib.error.URLError as error:
        raise DataError(f"{url}: no connection: {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DataError(f"{url}: no answer: {error or type(error).__name__}") from error
    with response:
        yield response


def _goes_on(response: Any, before: Version, had: int) -> bool:
    """Return whether the response is the rest of the partial file; servers that ignore If-Range are detected."""
    named = re.match(r"bytes (\d+)-\d+/(\d+|\*)$", response.headers.get("Content-Range", ""))
    if response.status != http.client.PARTIAL_CONTENT or named is None:
        return False
    same = _validator(response) in ("", before.validator)
    return same and int(named[1]) == had and named[2] in (str(before.total), "*")


def _version(response: Any, url: str) -> Version:
    length = response.headers.get("Content-Length", "")
    return Version(url, _validator(response), int(length) if length.isdecimal() else None)


def _receive(response: Any, version: Version, part: Path, begin: int) -> None:
    """Write what comes behind what was there; all of it must come."""
    try:
        with part.open("r+b" if begin else "wb") as file:
            file.seek(begin)
            atomic.write(_memory(part), [json.dumps(asdict(version)).encode()])
            cut = _copy(response, file, begin, version.total)
            came = file.tell()
    except OSError as error:
        raise DataError(f"{part}: {error.strerror or error}; what has come is kept: {AGAIN}") from error
    if cut or (version.total is not None and came != version.total):
        total = "an unknown number of" if version.total is None else version.total
        raise DataError(f"{version.url}: got {came} of {total} bytes, the transfer was cut: {AGAIN}")


def _copy(response: Any, file: Any, begin: int, total: int | None) -> bool:
    """Write what comes, shown in a bar; whether it was cut."""
    rest = 0 if total is None else math.ceil((total - begin) / _BLOCK)
    title = Path(file.name).stem + (f" from {begin / 1e6:.0f} MB on" if begin else "")
    shown = 0
    with showing(title, rest, "MB") if rest else nullcontext() as bar:
        while True:
            try:
                block, cut = response.read1(_BLOCK), False
            except (OSError, http.client.HTTPException):
                block, cut = b"", True
            file.write(block)
            while bar is not None and shown < math.ceil((file.tell() - begin) / _BLOCK):
                bar.advance()
                shown += 1
            if cut or not block:
                return cut


def _validator(response: Any) -> str:
    """Return the ETag unless it is weak, else the date of the last change."""
    etag = str(response.headers.get("ETag", ""))
    return etag if etag and not etag.startswith("W/") else str(response.headers.get("Last-Modified", ""))
