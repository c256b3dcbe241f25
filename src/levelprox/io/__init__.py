"""Files: what is read and written, and in which form."""

from levelprox.io.data import Data, Reading, read_data
from levelprox.io.libsvm import libsvm_batches, read_libsvm

__all__ = ["Data", "Reading", "libsvm_batches", "read_data", "read_libsvm"]
