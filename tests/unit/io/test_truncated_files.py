"""Files that are cut short or changed while they are read: an error names the file; no SIGBUS, no samples lost.

Scripts run in child processes: what is tested here has killed processes.
"""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest

from levelprox.cli import _partitions, _remote_data
from levelprox.cli._options import Options, Task
from levelprox.exceptions import BackendError
from levelprox.io.data import Reading
from tests.integration.test_out_of_core import FORMATS
from tests.support.children import run

CHUNKED = """
import os, sys, shutil
import numpy as np
from levelprox import SparseClassifier, open_chunked
from levelprox.exceptions import BackendError
from levelprox.io import arrays as stored
from levelprox.losses import Logistic
from levelprox.backends.out_of_core import FileSource
from levelprox.backends.partitioned import PartitionedModel
from levelprox.backends.partition import Form

path, target, cut = sys.argv[1], sys.argv[2] or None, sys.argv[3]

def open_whole(chunk_bytes=4000):
    '''X of the whole file.'''
    shutil.copy2(cut + ".whole", cut)
    return open_chunked(path, target, chunk_bytes=chunk_bytes)

def cutting(function, at):
    '''A function whose call of this number, from 1, cuts the file before it returns.'''
    calls = []
    def cuts(*args):
        found = function(*args)
        calls.append(args)
        if len(calls) == at:
            os.truncate(cut, 0)
        return found
    return cuts

def refused(what, function, *args):
    print(what, end=": ", flush=True)  # before the process may be killed
    try:
        found = function(*args)
    except BackendError as error:
        print("BackendError:", error, flush=True)
    else:
        print("no error:", found, flush=True)

def asked(X):
    model = PartitionedModel(FileSource(X), Form(Logistic(), True))
    return model.value_and_gradient(np.zeros(X.shape[1] + 1))[0]

open_chunked(path, target)
shutil.copy2(cut, cut + ".whole")
X = open_whole()
os.truncate(cut, 0)
refused("before the targets are read", asked, X)
X = open_whole()
fitted = SparseClassifier(n_features=1).fit(np.eye(4, X.shape[1]), [0, 1, 0, 1])
X.chunk = cutting(X.chunk, 2)
refused("before a chunk is worked on, predict", fitted.predict, X)
X = open_whole()
X.chunk = cutting(X.chunk, 2)
refused("before a chunk is worked on", asked, X)
X = open_whole()
X.bring = cutting(X.bring, 3)
refused("after a chunk was read ahead", asked, X)
X = open_whole()
if hasattr(X, "_open"):
    X._open = cutting(X._open, 3)
else:
    stored.FileState._compare = cutting(stored.FileState._compare, 7)
refused("between opening and reading", asked, X)
X = open_whole(10**9)
model = PartitionedModel(FileSource(X), Form(Logistic()))
x = np.zeros(X.shape[1])
whole = model.value_and_gradient(x)[0]
X.chunk = cutting(X.chunk, 1)
print(model.value_and_gradient(x)[0] == whole)  # the chunk is in memory
refused("the pass after", model.value_and_gradient, x)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        ("npy", "X.npy"),
        ("npy", "y.npy"),
        ("npz", "X.npz"),
        ("folder", "X/data.npy"),
        ("parquet", "X.parquet"),
        ("libsvm", "X.svm.csr-form"),
    ],
)
def test_a_chunked_file_that_is_cut_short(tmp_path, kind, cut):
    _, _, (path, target) = FORMATS[kind](tmp_path, np.float64)
    ended = run(CHUNKED, path, target or "", tmp_path / cut)
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    lines = ended.stdout.splitlines()
    assert len(lines) == 7 and lines.count("True") == 1
    for line in lines:
        assert line == "True" or f": BackendError: {tmp_path / cut}: the file had" in line, line


IN_MEMORY = """
import io, os, sys
from levelprox.exceptions import BackendError, FileFormatError
from levelprox.io import arrays as npz, opened, read_data

path, opened.BLOCK = sys.argv[1], 1000
whole = open(path, "rb").read()

class Cut(io.FileIO):
    '''A file that changes after the first read, or before it where it is read as a whole.'''
    def readinto(self, memory):
        found = super().readinto(memory)
        change()
        return found
    def read(self, *size):
        change()
        return super().read(*size)

def cut():
    os.truncate(path, len(whole) * 2 // 3)

def grow():
    with open(path, "ab") as file:
        file.write(whole[-100:])

members = npz._members
def changed(archive, name):
    change()
    return members(archive, name)

opened.open, npz._members = lambda path, *_, **__: Cut(path), changed
for now in (None, cut, grow):
    changes = [now] if now else []
    def change():
        if changes:
            changes.pop()()
    with open(path, "wb") as file:
        file.write(whole)
    try:
        print(read_data(path, "y" if path.endswith(("csv", "parquet", "npz")) else None).shape, flush=True)
    except (BackendError, FileFormatError) as error:
        print(type(error).__name__, error, flush=True)
"""


def _written(folder, kind):
    """A file of 2000 lines, or as many bytes."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 3)), rng.standard_normal(2000)
    path = folder / f"X.{kind}"
    if kind == "npz":
        np.savez(path, X=X, y=y)
    elif kind == "parquet":
        import polars

        polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}).write_parquet(path)
    elif kind == "csv":
        path.write_text(
            "a,b,c,y\n"
            + "".join(f"{a!r},{b!r},{c!r},{z!r}\n" for (a, b, c), z in zip(X.tolist(), y.tolist(), strict=True))
        )
    else:
        text = "".join(f"{z!r} 1:{a!r} 2:{b!r} 3:{c!r}\n" for (a, b, c), z in zip(X.tolist(), y.tolist(), strict=True))
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    return path


@pytest.mark.process
@pytest.mark.parametrize("kind", ["svm", "svm.gz", "csv", "parquet", "npz"])
def test_a_file_that_changes_while_it_is_read_to_memory(tmp_path, kind):
    ended = run(IN_MEMORY, _written(tmp_path, kind))
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    whole, cut, grown = ended.stdout.splitlines()
    assert whole == "(2000, 3)"
    assert cut.split()[0] in ("BackendError", "FileFormatError") and f"X.{kind}" in cut
    if kind in ("csv", "svm", "parquet"):  # others have checksums or an end of their own
        assert grown.startswith("BackendError") and f"X.{kind}: the file changed while it was read" in grown
    if kind == "csv":  # half a line may look like a line
        assert cut.startswith("BackendError")


def test_a_part_of_a_text_that_is_cut_short(tmp_path, monkeypatch):
    monkeypatch.setattr(_partitions, "_MIN_PART_BYTES", 2**12)
    path = _written(tmp_path, "csv")
    found = _partitions.parts_of(path, Reading(target="y"), 4).parts
    assert sum(len(part.read()[1]) for part in found) == 2000 and len(found) > 4
    os.truncate(path, path.stat().st_size - 40)
    assert len(found[0].read()[1])
    for targets_only in (False, True):
        with pytest.raises(BackendError, match=r"X\.csv from byte \d+ on: the file was cut short"):
            found[-1].read(targets_only)


def test_a_file_that_changes_between_the_two_reads_of_a_stream(tmp_path, monkeypatch):
    path, surveyed = _written(tmp_path, "svm"), _remote_data._scan_labels

    def changed(*args):
        found = surveyed(*args)
        path.write_text("\n".join(path.read_text().splitlines()[:-500]) + "\n")
        return found

    monkeypatch.setattr(_remote_data, "_scan_labels", changed)
    options = Options(features=[2], task=Task.REGRESSION, max_iter=100, quiet=True)
    with pytest.raises(BackendError, match=r"X\.svm: the file had"):
        _remote_data.fit_stream(path, 500, options, Reading())
