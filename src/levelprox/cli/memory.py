"""Memory that is no longer needed goes back to the system."""

from __future__ import annotations

import ctypes
import sys

_MMAP_THRESHOLD, _LARGE = -3, 2**21  # of glibc's mallopt; bytes


def give_back_large_arrays() -> None:
    """Have arrays above a few megabytes returned to the system when they are freed.

    By default glibc raises that size as such arrays are freed, up to 32 MB, and keeps what is smaller: of the vectors
    over a million samples that a fit makes and drops, gaps would remain that take as much room again.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, or another habit
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)
