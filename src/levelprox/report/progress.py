"""A line that shows how a run is doing, for `solve(..., callback=ProgressLine())`."""

from __future__ import annotations

import sys
import time
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from levelprox.result import Record


class ProgressLine:
    """Prints step, ψ, g, KKT residual and nonzeros; on a terminal the line is rewritten in place.

    Parameters
    ----------
    stream : text stream, default=sys.stderr
    every : float, default=0.2
        Seconds between lines; the first step is always shown.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 0.2) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.every = every
        self._next = 0.0

    def __call__(self, record: Record, x: NDArray[np.float64]) -> None:
        """Show one outer step."""
        now = time.monotonic()
        if record.k > 1 and now < self._next:
            return
        self._next = now + self.every
        in_place = self.stream.isatty()
        line = (
            f"step {record.k:4d}  psi {record.psi:.6f}  g {record.g:.4f} <= {record.eta_k:.4f}  "
            f"KKT {record.kkt:.1e}  {np.count_nonzero(x)} nonzero  {record.seconds:.2f} s"
        )
        self.stream.write(f"\r{line}\x1b[K" if in_place else f"{line}\n")
        self.stream.flush()

    def close(self) -> None:
        """End the line on a terminal."""
        if self.stream.isatty():
            self.stream.write("\n")
