"""The paper's data sets: what a name gives, what it is called, and what form it has."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from experiments.datasets import FORMS, NAMES, VARIABLE, DataError, Places, generated, load, source
from experiments.datasets.originals import ORIGINALS, SITE
from experiments.datasets.stand_ins import STAND_INS
from levelprox import LinearModel


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_without_any_folder_a_small_substitute_is_generated_and_says_so(name):
    split = load(name, Places())
    assert split.source == source(name, Places())
    assert split.source.kind == "generated" and split.source.label == f"{name} (generated substitute)"
    assert split.source.note and split.loss == FORMS[name].loss
    assert split.X.shape[1] == split.X_test.shape[1] and split.X.shape[0] == split.b.size > 2 * split.b_test.size > 0
    assert split.X_test.shape[0] == split.b_test.size
    if name in ("gisette", "YearPredictionMSD"):
        assert isinstance(split.X, np.ndarray) and split.X.flags.c_contiguous
    else:
        assert (
            isinstance(split.X, scipy.sparse.csr_matrix) and split.X.indices.dtype == split.X.indptr.dtype == np.int32
        )
    assert split.X.dtype == split.b.dtype == np.float64
    assert LinearModel(split.X, split.b, split.loss).dimension == split.X.shape[1]
    if split.loss == "logistic":
        assert set(split.b) == set(split.b_test) == {-1.0, 1.0}
    else:
        assert abs(split.b.mean()) < 1e-9 * split.b.std()


def test_substitutes_are_like_what_they_stand_for():
    X, b = generated.text(200, 500, length=30, seed=0)
    np.testing.assert_allclose((X * X).sum(axis=1), 1)
    assert set(b) == {-1.0, 1.0} and abs(b.mean()) < 0.2 and 0.01 < X.nnz / (200 * 500) < 0.06
    X, b = generated.pixels(300, 50, seed=0)
    assert X.min() == -1 and X.max() == 1 and set(b) == {-1.0, 1.0}
    X, b = generated.digits(500, 100, seed=0)
    assert X.min() == 0 and 0.9 < X.max() <= 1 and 0.15 < X.nnz / (500 * 100) < 0.3 and 0.05 < (b == 1).mean() < 0.15
    X, b = generated.measurements(400, 10, seed=0)
    A = np.column_stack([X, np.ones(400)])
    assert 0.1 < np.var(b - A @ np.linalg.lstsq(A, b)[0]) / np.var(b) < 0.3  # noise of a quarter, signal of one


def test_some_rows_are_random_ones_and_the_training_part_is_centred_again():
    whole = load("YearPredictionMSD", Places())
    some = load("YearPredictionMSD", Places(), rows=50)
    again = load("YearPredictionMSD", Places(), rows=50)
    assert some.X.shape == (50, 90) and some.X_test.shape == (250, 90)
    np.testing.assert_array_equal(some.X, again.X)
    np.testing.assert_allclose([some.X.mean(axis=0), some.X.std(axis=0) - 1], 0, atol=1e-12)
    assert abs(some.b.mean()) < 1e-12
    assert load("YearPredictionMSD", Places(), rows=10**6).X.shape == whole.X.shape
    whole, some = load("gisette", Places()), load("gisette", Places(), rows=30)
    places = [int(np.flatnonzero((row == whole.X).all(axis=1))[0]) for row in some.X]
    assert places == sorted(places) != list(range(30)) and len(set(places)) == 30
    np.testing.assert_array_equal(some.b, whole.b[places])
    with pytest.raises(DataError, match="at least one row is needed, got rows=0"):
        load("gisette", Places(), rows=0)


LOADER = """
import numpy as np
def load(name):
    X = np.arange(12.0).reshape(6, 2)
    return X[:4], np.array([1.0, -1, 1, 1]), X[4:], np.array([3.0, -1])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of stand-ins."""
    there = tmp_path / "stand_ins"
    there.mkdir()
    (there / "load_data.py").write_text(LOADER)
    monkeypatch.setenv(VARIABLE, str(there))
    return there


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("real-sim", "real-sim (stand-in: news20)"),
        ("real-sim:imdb_sentiment", "real-sim (stand-in: imdb_sentiment)"),
        ("rcv1.binary", "rcv1.binary (stand-in: rcv1 sample)"),
        ("mnist", "mnist"),
        ("gisette", "gisette (stand-in: gisette_like)"),
        ("E2006-tfidf", "E2006-tfidf (stand-in: imdb_rating)"),
        ("YearPredictionMSD", "YearPredictionMSD (stand-in: flights)"),
    ],
)
def test_stand_ins_say_so_and_the_exact_one_does_not(folder, name, label):
    split = load(name, Places.from_environment())
    assert split.source.label == label
    assert split.source.kind == ("exact" if name == "mnist" else "stand-in")
    assert bool(split.source.note) == (name != "mnist")
    dense = split.X if isinstance(split.X, np.ndarray) else split.X.toarray()
    np.testing.assert_array_equal(dense, np.arange(8.0).reshape(4, 2))  # flights, too, are as their loader scales them
    if split.loss == "squared":
        np.testing.assert_array_equal([*split.b, *split.b_test], [0.5, -1.5, 0.5, 0.5, 2.5, -1.5])


def test_every_name_has_an_original_a_stand_in_and_a_substitute():
    for table in (ORIGINALS, STAND_INS, FORMS, generated.GENERATED):
        assert set(table) == set(NAMES)


def test_a_folder_of_stand_ins_that_is_none_is_named(tmp_path, monkeypatch, folder):
    (folder / "load_data.py").write_text("def load(name): return open(name)")
    with pytest.raises(DataError, match=r"load_data\.py could not load news20: FileNotFoundError"):
        load("real-sim", Places.from_environment())
    with pytest.raises(DataError, match="no stand-in 'w8a' for real-sim; there is news20 and imdb_sentiment"):
        source("real-sim:w8a", Places.from_environment())
    (folder / "load_data.py").unlink()
    with pytest.raises(DataError, match=r"LEVELPROX_DATA names .*stand_ins, which has no load_data\.py"):
        source("mnist", Places.from_environment())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(DataError, match=r"LEVELPROX_DATA names .*missing, and there is no such folder"):
        source("mnist", Places.from_environment())
    with pytest.raises(DataError, match="LEVELPROX_DATA is not set"):
        source("real-sim:imdb_sentiment", Places())
    with pytest.raises(DataError, match=r"no folder .*missing: .python -m experiments data get all --dir"):
        source("mnist", Places.from_environment(tmp_path / "missing"))


@pytest.mark.parametrize(("name", "meant"), [("realsim", "real-sim"), ("MNIST", "mnist"), ("e2006", "E2006-tfidf")])
def test_an_unknown_name_lists_the_names_with_a_close_match(name, meant):
    with pytest.raises(DataError, match=f"no data set '{name}'; did you mean {meant}"):
        load(name, Places())


def test_originals_are_those_of_the_papers_table_3():
    rows = {name: (*original.parts, original.width, original.nonzeros) for name, original in ORIGINALS.items()}
    assert rows == {
        "real-sim": (50347, 21962, 20958, "0.25"),
        "rcv1.binary": (20242, 677399, 47236, "0.16"),
        "mnist": (60000, 10000, 784, "19.12"),
        "gisette": (6000, 1000, 5000, "99.10"),
        "E2006-tfidf": (16087, 3308, 150360, "0.83"),
        "YearPredictionMSD": (463715, 51630, 90, "100"),
    }
    assert [file.rows for file in ORIGINALS["real-sim"].files] == [72309]
    assert SITE.startswith("https://")
