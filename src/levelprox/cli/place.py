"""Where the data of a fit are, and where it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from levelprox.cli.cluster import local_workers
from levelprox.cli.exits import UsageError


@dataclass(frozen=True)
class Place:
    """Where the data of a fit are, and where it is done: in memory here, unless one of these is given.

    Attributes
    ----------
    stream : int, optional
        Batches of so many rows, each seen once.
    dask : str, optional
        A cluster.
    chunked : bool
        A file that is read some rows at a time, as often as need be.
    device : str, optional
        Of torch.
    threads : int, optional
        How many at most.
    """

    stream: int | None = None
    dask: str | None = None
    chunked: bool = False
    device: str | None = None
    threads: int | None = None

    def check(self, chooses: bool, checkpoint: Path | None, report: Path | None) -> None:
        """Refuse what does not go together."""
        asked = {
            "--stream": self.stream is not None,
            "--dask": self.dask is not None,
            "--chunked": self.chunked,
            "--device": self.device is not None,
        }
        given = [name for name, is_given in asked.items() if is_given]
        if len(given) > 1:
            raise UsageError(f"give {given[0]} or {given[1]}, not both")
        if self.stream is not None and (chooses or checkpoint is not None or report is not None):
            raise UsageError("--stream sees the data once: it goes with neither --cv, --checkpoint nor --report")
        if (self.dask is not None or self.chunked) and report is not None:
            raise UsageError(f"--report needs the data in memory: it does not go with {given[0]}")
        if self.dask is not None:
            local_workers(self.dask)
        if self.device is not None and find_spec("torch") is None:
            raise UsageError("--device needs torch: pip install 'levelprox[gpu]'")

    def check_columns(self, given: Mapping[str, object]) -> None:
        """Refuse options about columns that only files in memory have."""
        for option, value in given.items():
            if value is not None and (self.stream is not None or self.dask is not None or self.chunked):
                raise UsageError(f"{option} needs the data in memory: no --stream, --dask or --chunked")

    @property
    def is_remote(self) -> bool:
        """Whether data are not in memory as a whole, or are moved to a device."""
        return self.stream is not None or self.dask is not None or self.chunked or self.device is not None

    @property
    def takes_folders(self) -> bool:
        """Whether data may be a folder of files."""
        return self.dask is not None or self.chunked
