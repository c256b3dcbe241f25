"""How many threads the kernels use.

In this order: the limit of threadpoolctl, which holds for the thread that sets it as OpenMP's does; OMP_NUM_THREADS;
the processors that the calling thread may run on, at most as many as the quota of the container pays for. The kernels
have a pool of their own (`kernels/algorithms/threads.cpp`); OpenMP is not used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any


def from_environment() -> int | None:
    """Return the number in OMP_NUM_THREADS: the first of a list, None if there is no positive number."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) > 0 else None


def cpu_quota(root: str | os.PathLike[str] = "/") -> int | None:
    """Processors that the control groups of this process allow, rounded up; None without a limit.

    Parameters
    ----------
    root : path
        Where /proc and /sys are.
    """
    try:
        lines = Path(root, "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return None
    found = [share for line in lines for share in _shares(Path(root, "sys/fs/cgroup"), line)]
    return max(1, math.ceil(min(found))) if found else None


def _shares(mounted: Path, line: str) -> Iterator[float]:
    """Processors that the group of a line of /proc/self/cgroup may use, and each group above it, where limited."""
    number, _, named = line.partition(":")
    controllers, colon, place = named.partition(":")
    if not number.isdigit() or not colon:
        return
    if not controllers:  # version 2, alone or beside version 1
        roots = [mounted, mounted / "unified"]
    elif "cpu" in controllers.split(","):
        roots = [mounted / controllers, mounted / "cpu"]
    else:
        return
    group = PurePosixPath(place.lstrip("/"))
    for root in roots:
        for above in (group, *group.parents):
            share = _share(root / above, not controllers)
            if share is not None:
                yield share


def _share(group: Path, second: bool) -> float | None:
    """Processors that a control group, of the second version or the first, may use; None without a limit."""
    try:
        if second:
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        share = float(quota) / float(period)  # "max" is no number
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return share if 0 < share < math.inf else None


def set_up(kernels: ModuleType) -> None:
    """Tell the kernels what holds by default, and threadpoolctl of the kernels. They call this when they are loaded."""
    kernels.set_thread_defaults(min(from_environment() or 0, 2**16), min(cpu_quota() or 0, 2**16))
    import threadpoolctl  # comes with scikit-learn

    if hasattr(threadpoolctl, "register"):  # since 3.2
        threadpoolctl.register(_controller(threadpoolctl.LibController))


def _controller(base: Any) -> Any:
    """Return the class through which threadpoolctl reads and sets the number."""

    class KernelThreads(base):  # type: ignore[misc]
        """The threads of levelprox's kernels, beside those of OpenMP."""

        user_api, internal_api = "openmp", "levelprox"
        filename_prefixes = ("_kernels",)
        check_symbols = ("levelprox_get_num_threads",)

        def get_num_threads(self) -> int:
            return int(self.dynlib.levelprox_get_num_threads())

        def set_num_threads(self, num_threads: int) -> None:
            self.dynlib.levelprox_set_num_threads(int(num_threads))

        def get_version(self) -> str:
            from levelprox import __version__

            return __version__

    return KernelThreads
