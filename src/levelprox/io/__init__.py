"""Readers and writers of files."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelprox.io.data import Data, Reading, read_data
    from levelprox.io.libsvm import libsvm_batches, read_libsvm

__all__ = ["Data", "Reading", "libsvm_batches", "read_data", "read_libsvm"]

# A fit needs none of the readers: they are imported at first use.
_HOMES = {"Data": "data", "Reading": "data", "read_data": "data", "libsvm_batches": "libsvm", "read_libsvm": "libsvm"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'levelprox.io' has no attribute {name!r}")
    return getattr(import_module(f"levelprox.io.{_HOMES[name]}"), name)
