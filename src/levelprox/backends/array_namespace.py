"""Differences between torch and cupy, and the only place where arrays are transferred between a device and the host.

Most names are the same in both and in numpy (`xp`); the few others are here. Everything that crosses is counted.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.exceptions import BackendError, InvalidInputError


@dataclass
class Transfers:
    """What has crossed so far, and how often."""

    bytes_to_host: int = 0
    bytes_to_device: int = 0
    count: int = 0


class _Arrays(ABC):
    """Arrays of one library on one device.

    Attributes
    ----------
    xp : module
        torch or cupy.
    device : object
        Where the arrays are, as the library calls it.
    transfers : Transfers
    """

    xp: Any
    device: Any

    def __init__(self) -> None:
        self.transfers = Transfers()

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return an array of the device in the memory of the host."""
        host = self._to_host(array)
        self.transfers.bytes_to_host += host.nbytes
        self.transfers.count += 1
        return host

    def to_device(self, array: NDArray[Any]) -> Any:
        """Return an array of the host on the device, of the same type."""
        self.transfers.bytes_to_device += array.nbytes
        self.transfers.count += 1
        return self._to_device(np.ascontiguousarray(array))

    @contextmanager
    def within_memory(self, doing: str, needed: int) -> Iterator[None]:
        """Raise an error with the needed and the free bytes if the device is out of memory."""
        try:
            yield
        except self.out_of_memory as error:
            raise BackendError(
                f"the device {self.device} is out of memory: {doing} needs about {needed} bytes more, and "
                f"{self.free_bytes()} are free"
            ) from error

    @abstractmethod
    def _to_host(self, array: Any) -> NDArray[Any]: ...

    @abstractmethod
    def _to_device(self, array: NDArray[Any]) -> Any: ...

    @property
    @abstractmethod
    def out_of_memory(self) -> type[Exception]:
        """What the library raises where memory is short."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the free memory of the device in bytes."""


class Torch(_Arrays):
    """Tensors of torch."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.xp = importlib.import_module("torch")
        self.device = self.xp.device(device)

    def _to_host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any] = array.detach().cpu().numpy()
        return host

    def _to_device(self, array: NDArray[Any]) -> Any:
        host = self.xp.from_numpy(array if array.flags.writeable else array.copy())
        there = self.xp.empty(host.shape, dtype=host.dtype, device=self.device)
        return there.copy_(host)

    @property
    def out_of_memory(self) -> type[Exception]:
        """The error that the library raises if memory is short."""
        error: type[Exception] = self.xp.OutOfMemoryError
        return error

    def free_bytes(self) -> int:
        """Return the free memory of the device in bytes."""
        if self.device.type == "cuda":
            kept = self.xp.cuda.memory_reserved(self.device) - self.xp.cuda.memory_allocated(self.device)
            return int(self.xp.cuda.mem_get_info(self.device)[0]) + int(kept)
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        """Return the type of the entries as a NumPy dtype."""
        try:
            return np.dtype(str(array.dtype).removeprefix("torch."))
        except TypeError:
            raise InvalidInputError(f"X must be of float32 or float64, got {array.dtype}") from None

    def cast(self, array: Any, dtype: np.dtype[Any]) -> Any:
        """Return the array in another type; itself if it has that type."""
        return array.to(getattr(self.xp, dtype.name))

    def take(self, array: Any, places: Any, axis: int) -> Any:
        """Return slices of an array, copied."""
        return self.xp.index_select(array, axis, places)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return zeros on the device."""
        return self.xp.zeros(shape, dtype=getattr(self.xp, dtype.name), device=self.device)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return uninitialised memory on the device."""
        return self.xp.empty(shape, dtype=getattr(self.xp, dtype.name), device=self.device)

    def counting(self, count: int) -> Any:
        """Return 0, 1, …, count − 1."""
        return self.xp.arange(count, device=self.device)

    def add_at(self, out: Any, places: Any, values: Any) -> None:
        """Add values to entries of a vector, repeated entries included."""
        out.index_add_(0, places, values)

    def least_at(self, out: Any, places: Any, values: Any) -> None:
        """Lower entries of a vector to the least of the values for them."""
        out.scatter_reduce_(0, places, values, "amin")

    def csr_parts(self, X: Any) -> tuple[Any, Any, Any] | None:
        """Return values, columns and ends of rows of a CSR matrix; None for a dense one."""
        if X.layout == self.xp.strided:
            return None
        if X.layout != self.xp.sparse_csr:
            raise InvalidInputError(f"sparse tensors must be CSR, got {X.layout}: use X.to_sparse_csr()")
        return X.values(), X.col_indices(), X.crow_indices()

    def repeated(self, values: Any, counts: Any) -> Any:
        """Return each value as often as its count."""
        return self.xp.repeat_interleave(values, counts)


class Cupy(_Arrays):
    """Arrays of cupy, and CSR matrices of cupyx."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.xp = importlib.import_module("cupy")
        self.device = self.xp.cuda.Device(int(device))

    def _to_host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any] = self.xp.asnumpy(array)
        return host

    def _to_device(self, array: NDArray[Any]) -> Any:
        with self.device:
            return self.xp.asarray(array)

    @property
    def out_of_memory(self) -> type[Exception]:
        """The error that the library raises if memory is short."""
        error: type[Exception] = self.xp.cuda.memory.OutOfMemoryError
        return error

    def free_bytes(self) -> int:
        """Return the free memory of the device in bytes."""
        with self.device:
            return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(self.xp.get_default_memory_pool().free_bytes())

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        """Return the type of the entries as a NumPy dtype."""
        dtype: np.dtype[Any] = np.dtype(array.dtype)
        return dtype

    def cast(self, array: Any, dtype: np.dtype[Any]) -> Any:
        """Return the array in another type; itself if it has that type."""
        return array.astype(dtype, copy=False)

    def take(self, array: Any, places: Any, axis: int) -> Any:
        """Return slices of an array, copied."""
        return self.xp.take(array, places, axis=axis)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return zeros on the device."""
        with self.device:
            return self.xp.zeros(shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return uninitialised memory on the device."""
        with self.device:
            return self.xp.empty(shape, dtype)

    def counting(self, count: int) -> Any:
        """Return 0, 1, …, count − 1."""
        with self.device:
            return self.xp.arange(count)

    def add_at(self, out: Any, places: Any, values: Any) -> None:
        """Add values to entries of a vector, repeated entries included."""
        self.xp.add.at(out, places, values)

    def least_at(self, out: Any, places: Any, values: Any) -> None:
        """Lower entries of a vector to the least of the values for them."""
        self.xp.minimum.at(out, places, values)

    def csr_parts(self, X: Any) -> tuple[Any, Any, Any] | None:
        """Return values, columns and ends of rows of a CSR matrix; None for a dense one."""
        if isinstance(X, self.xp.ndarray):
            return None
        if X.format != "csr":
            raise InvalidInputError(f"sparse matrices on a device must be CSR, got {X.format}: use X.tocsr()")
        return X.data, X.indices, X.indptr

    def repeated(self, values: Any, counts: Any) -> Any:
        """Return each value as often as its count."""
        places = self.xp.zeros(int(counts.sum()), values.dtype)
        ends = self.xp.cumsum(counts)[:-1]
        self.xp.add.at(places, ends[ends < places.size], 1)
        return values[self.xp.cumsum(places)]


#: Arrays of one library on one device.
Namespace = Torch | Cupy


def array_namespace(X: Any) -> Namespace | None:
    """Return the library and device of an array; None if it is not on a supported device."""
    library = type(X).__module__.split(".")[0]
    if library == "torch" and hasattr(X, "layout"):
        return Torch(X.device)
    if library in ("cupy", "cupyx"):
        return Cupy((X.data if library == "cupyx" else X).device.id)  # its sparse matrices do not say where they are
    return None


def on_device(X: Any, device: Any, xp: str = "torch") -> Any:
    """X on a device: moved there where it is not there yet, or an error; never somewhere else instead.

    Parameters
    ----------
    X : ndarray, scipy.sparse CSR matrix, tensor or array of the library
    device : str or device
        As the library calls it, such as "cuda" or "cuda:1"; for cupy a number.
    xp : {"torch", "cupy"}
        Which library is to hold it.

    Raises
    ------
    InvalidInputError
        If there is no such library or device.
    BackendError
        If X does not fit there.
    """
    namespace = _named(xp, device)
    own = array_namespace(X)
    if own is not None:
        if type(own) is not type(namespace):
            raise InvalidInputError(f"X is an array of {own.xp.__name__} already, and cannot become one of {xp}")
        with namespace.within_memory("X", _size_of(X)):
            return X.to(namespace.device) if xp == "torch" else X
    if hasattr(X, "tocsr"):
        return _csr_on(namespace, X.tocsr())
    array = np.asarray(X)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    with namespace.within_memory("X", array.nbytes):
        return namespace.to_device(array)


def _named(xp: str, device: Any) -> Namespace:
    """Return the library's side of a device that exists."""
    if xp not in ("torch", "cupy"):
        raise InvalidInputError(f"xp must be 'torch' or 'cupy', got {xp!r}")
    if importlib.util.find_spec(xp) is None and xp not in sys.modules:
        raise InvalidInputError(f"device={device!r} needs {xp}, which is not installed: pip install levelprox[gpu]")
    try:
        namespace: Namespace = Torch(device) if xp == "torch" else Cupy(device)
        namespace.zeros((1,), np.dtype(np.float64))
    except Exception as error:  # each library has its own errors for a missing device
        raise InvalidInputError(f"{xp} has no device {device!r}: {error}") from error
    return namespace


def _csr_on(namespace: Namespace, X: Any) -> Any:
    values = X.data if X.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    with namespace.within_memory("X", values.nbytes + X.indices.nbytes + X.indptr.nbytes):
        parts = [namespace.to_device(one) for one in (X.indptr, X.indices, values)]
        if isinstance(namespace, Torch):
            with warnings.catch_warnings():  # some versions say that invariants are not checked, though they are
                warnings.simplefilter("ignore", UserWarning)
                return namespace.xp.sparse_csr_tensor(*parts, size=X.shape, check_invariants=True)
        sparse = importlib.import_module("cupyx.scipy.sparse")
        return sparse.csr_matrix((parts[2], parts[1], parts[0]), shape=X.shape)


def _size_of(X: Any) -> int:
    return int(np.prod(X.shape)) * 8
