"""Files: what is read and written, and in which form."""

from levelprox.io.libsvm import libsvm_batches, read_libsvm

__all__ = ["libsvm_batches", "read_libsvm"]
