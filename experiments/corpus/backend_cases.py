"""Data outside of this process's memory: Dask arrays (by threads of the process), files in chunks, tensors of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from experiments.corpus.case import CONSTRAINTS, LOSSES, Case, Samples, SkipCase, samples
from experiments.corpus.describe import Told, hashed
from levelprox import (
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    best_subset,
    linear_model,
    open_chunked,
    path,
    solve,
)

#: Makes X of another kind, from the data and an empty folder; targets are those in memory unless it says so.
Storage = Callable[[Samples, Path], Any]


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for name, storage in _STORAGE.items():
        for fit in _FITS:
            yield Case(f"{name}/{fit}", partial(_run, storage, _FITS[fit]))
    for loss in ("huber", "squared_hinge", "cauchy", "sigmoid", "poisson", "gamma"):
        for name in ("dask", "npy"):
            yield Case(f"{name}/solve {loss}", partial(_run, _STORAGE[name], partial(_solve, loss=loss)))
    for name in ("dask csr", "npz"):
        yield Case(f"{name}/direct", partial(_run, _STORAGE[name], partial(_solve, loss="logistic", start="direct")))
    for name in ("dask", "npy"):
        for fit in _MORE_FITS:
            yield Case(f"{name}/{fit}", partial(_run, _STORAGE[name], _MORE_FITS[fit]))


def _run(storage: Storage, fit: Callable[[Any, Samples], Any], folder: Path) -> Any:
    data = samples(90, 20, seed=7)
    return fit(storage(data, folder), data)


def _dask(data: Samples, _: Path, sparse: bool = False) -> Any:
    try:
        import dask.array as da
    except ImportError:
        raise SkipCase("dask is not installed") from None
    if not sparse:
        return da.from_array(data.X, chunks=(30, -1))
    X = scipy.sparse.csr_matrix(np.where(np.abs(data.X) > 0.5, data.X, 0.0))
    blocks = [da.from_array(X[begin : begin + 30], chunks=(-1, -1), asarray=False) for begin in (0, 30, 60)]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _npy(data: Samples, folder: Path) -> Any:
    np.save(folder / "X.npy", data.X)
    return open_chunked(folder / "X.npy", chunk_bytes=30 * data.X.shape[1] * 8)


def _npz(data: Samples, folder: Path) -> Any:
    X = scipy.sparse.csr_array(np.where(np.abs(data.X) > 0.5, data.X, 0.0))
    scipy.sparse.save_npz(folder / "X.npz", scipy.sparse.csr_matrix(X), compressed=False)
    return open_chunked(folder / "X.npz", chunk_bytes=4000)


def _torch(data: Samples, _: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise SkipCase("torch is not installed") from None
    return torch.from_numpy(data.X)


_STORAGE: dict[str, Storage] = {
    "dask": _dask,
    "dask csr": partial(_dask, sparse=True),
    "npy": _npy,
    "npz": _npz,
    "torch": _torch,
}


def _solve(X: Any, data: Samples, loss: str, **options: Any) -> Told:
    constraint, level = CONSTRAINTS["mcp"]
    objective = linear_model(X, getattr(data, LOSSES[loss]), loss, fit_intercept=True)
    return _with_traffic(solve(Problem(objective, constraint, level), **options), objective)


def _subset(X: Any, data: Samples, loss: str, **options: Any) -> Told:
    objective = linear_model(X, getattr(data, LOSSES[loss]), loss, fit_intercept=True)
    return _with_traffic(best_subset(objective, 3, **options), objective)


def _with_traffic(found: Any, objective: Any) -> Told:
    traffic = getattr(objective, "traffic", None)
    names = ("rounds", "looks", "bytes_out", "bytes_back")
    return Told(found, counts={name: int(getattr(traffic, name)) for name in names if hasattr(traffic, name)})


def _path(X: Any, data: Samples) -> Any:
    objective = linear_model(X, data.signs, "logistic", fit_intercept=True)
    return path(Problem(objective, *CONSTRAINTS["mcp"]), [1.5, 2.5])


def _classifier(X: Any, data: Samples, target: str = "two", kind: Any = SparseClassifier, **options: Any) -> Told:
    model = kind(**options).fit(X, getattr(data, target))
    return Told(model, hashes={"predict": hashed(np.asarray(model.predict(X)))})


def _refused(X: Any, data: Samples) -> Any:
    return SparseRegressor("absolute", n_features=2).fit(X, data.z)


_FITS: dict[str, Callable[[Any, Samples], Any]] = {
    "solve squared": partial(_solve, loss="squared"),
    "solve logistic": partial(_solve, loss="logistic"),
    "subset squared": partial(_subset, loss="squared"),
    "subset logistic": partial(_subset, loss="logistic"),
    "classifier k": partial(_classifier, n_features=3),
    "classifier level": partial(_classifier, level=3.5),
    "regressor k": partial(_classifier, target="z", kind=SparseRegressor, n_features=3),
    "a loss with kinks": _refused,
}
_MORE_FITS: dict[str, Callable[[Any, Samples], Any]] = {
    "path": _path,
    "max_iter": partial(_solve, loss="logistic", max_iter=1),
    "softmax level": partial(_classifier, target="three", level=2.5),
    "ridge": partial(_classifier, n_features=3, ridge=0.05),
    "keep": partial(_classifier, n_features=2, keep=[0]),
    "positive": partial(_classifier, level=2.5, positive=True),
    "class weights": partial(_classifier, level=2.5, class_weight="balanced"),
    "not standardised": partial(_classifier, n_features=3, standardize=False, fit_intercept=False),
    "classifier-cv": partial(_classifier, kind=SparseClassifierCV, level=[1.5, 2.5], cv=2, random_state=0),
    "regressor-cv bic": partial(_classifier, target="z", kind=SparseRegressorCV, n_features=[1, 2, 3], criterion="bic"),
}
