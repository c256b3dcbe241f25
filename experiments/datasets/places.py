"""Locations of data sets: downloaded originals, and a folder of stand-ins."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from experiments.datasets.errors import DataError

VARIABLE = "LEVELPROX_DATA"
ORIGINALS = "LEVELPROX_ORIGINALS"
LOADER = "load_data.py"


@dataclass(frozen=True)
class Places:
    """Two folders, either of which may be missing.

    Attributes
    ----------
    originals : Path or None
        What `python -m experiments data get NAME --dir D` fills.
    stand_ins : Path or None
        A folder whose `load_data.py` offers `load(name) -> X_train, y_train, X_test, y_test`.
    """

    originals: Path | None = None
    stand_ins: Path | None = None

    @classmethod
    def from_environment(cls, dir: Path | None = None) -> Places:
        """Originals in `dir` or where LEVELPROX_ORIGINALS says, stand-ins where LEVELPROX_DATA does."""
        originals, stand_ins = dir or os.environ.get(ORIGINALS), os.environ.get(VARIABLE)
        return cls(Path(originals) if originals else None, Path(stand_ins) if stand_ins else None)

    def loader(self) -> Path:
        """Return the `load_data.py` of the folder of stand-ins."""
        if self.stand_ins is None:
            raise DataError(f"{VARIABLE} is not set: it names the folder of stand-ins, which has a {LOADER}")
        if not self.stand_ins.is_dir():
            raise DataError(f"{VARIABLE} names {self.stand_ins}, and there is no such folder")
        path = self.stand_ins / LOADER
        if not path.is_file():
            raise DataError(f"{VARIABLE} names {self.stand_ins}, which has no {LOADER}")
        return path

    def downloaded(self) -> Path | None:
        """Return the folder of originals, None where none was named."""
        if self.originals is not None and not self.originals.is_dir():
            raise DataError(
                f"no folder {self.originals}: `python -m experiments data get all --dir {self.originals}` fills it"
            )
        return self.originals
