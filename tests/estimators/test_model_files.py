"""Model files: loading gives the same bits, and all other data raise an error."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import math
import os
import pickle
import random
import time
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from safetensors import safe_open
from sklearn.base import clone
from sklearn.model_selection import KFold

import levelprox
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.constraints import CONSTRAINT_TYPES, Custom
from levelprox.estimators._soundness import FITTED, check_soundness
from levelprox.estimators.persistence import VERSION, packed, read_model, unpacked
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io import container
from levelprox.losses import LOSS_TYPES
from levelprox.methods.subsolvers import SUBSOLVERS
from tests.support import FIXTURES
from tests.support.children import Child, Ended
from tests.support.estimator_cases import TASKS, estimator, fitted, targets
from tests.support.long_runs import LONG
from tests.support.registries import CONSTRAINTS

FOR_EVER = sorted(FIXTURES.glob("v*/*.levelprox"))


def data(task: str = "logistic", n: int = 60, d: int = 8, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, targets(task, X, rng)


def there_and_back(model, path):
    model.save(path, overwrite=True)
    return levelprox.load(path)


def same(one: object, other: object) -> bool:
    """In value, type and every bit."""
    if scipy.sparse.issparse(one):
        return type(one) is type(other) and same(one.toarray(), other.toarray())
    if isinstance(one, np.ndarray | np.generic):
        if type(one) is not type(other) or one.dtype != other.dtype or one.shape != other.shape:
            return False
        return one.tolist() == other.tolist() if one.dtype.kind in "OU" else one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and (one == other or (one != one and other != other))


def state(model) -> dict[str, object]:
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_same(model, loaded, X) -> None:
    assert type(loaded) is type(model)
    ours, theirs = model.get_params(), loaded.get_params()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        given = list(value) if isinstance(value, range) else value
        assert same(given, theirs[name]) or (not isinstance(given, np.ndarray) and given == theirs[name]), name
    for name, value in state(model).items():
        assert same(value, getattr(loaded, name)) or value == getattr(loaded, name), name
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba", "transform"):
        if hasattr(model, method):
            assert same(getattr(model, method)(X), getattr(loaded, method)(X)), method
    assert same(model.get_feature_names_out(), loaded.get_feature_names_out())


@pytest.mark.parametrize("task", [task for task in TASKS if LONG or not task.endswith("ovr") or task.startswith("squ")])
def test_every_loss_comes_back_the_same(task, tmp_path):
    X, y = data(task, d=5)
    model = fitted(estimator(task, n_features=2), X, y)
    loaded = there_and_back(model, tmp_path / "file")
    assert_same(model, loaded, X)
    assert same(model.score(X, y), loaded.score(X, y))
    again = fitted(clone(loaded), X, y)
    assert same(again.coef_, model.coef_) and same(again.intercept_, model.intercept_)


MODELS = [
    SparseClassifier(level=2.5, constraint="scad", tol=1e-4),
    SparseClassifier(n_features=2, class_weight={-1: 1.0, 1: 2.5}, fit_intercept=False),
    SparseClassifier(n_features=np.int64(2), feature_weight=np.array([0.0, 1, 1, 1, 1, 1, 1, 1]), verbose=False),
    SparseClassifier(level=1.5, feature_weight=pd.Series(np.arange(8.0)), standardize=False),
    SparseClassifierCV(n_features=range(3), cv=3),
    SparseClassifierCV(level=(0.5, 1.5), criterion="ebic", one_standard_error=False),
    SparseClassifierCV(n_features=[1, 2], scoring="accuracy", cv=3, n_jobs=1, random_state=5),
    SparseRegressor(level=1.5, constraint="l1", time_limit=60.0),
    SparseRegressor(n_features=0, positive=True),
    SparseRegressorCV(n_features=np.array([1, 2]), cv=3),
]
STORAGES = ("float32", "sparse", "frame")


@pytest.mark.parametrize(
    ("model", "kind"),
    [(model, kind) for i, model in enumerate(MODELS) for j, kind in enumerate(STORAGES) if LONG or i % 3 == j],
    ids=lambda one: str(one)[:70],
)
def test_every_kind_of_model_comes_back_the_same(model, kind, tmp_path):
    X, y = data()
    X = {
        "float32": X.astype(np.float32),
        "sparse": scipy.sparse.csr_array(X),
        "frame": pd.DataFrame(X, columns=[f"größe {j}" for j in range(8)]),
    }[kind]
    weight = np.linspace(0, 1, 60)
    model = fitted(clone(model), X, y, sample_weight=weight)
    path, second = tmp_path / "a.levelprox", tmp_path / "b.levelprox"
    loaded = there_and_back(model, path)
    if "feature_weight" in model.get_params() and isinstance(model.feature_weight, pd.Series):
        model.feature_weight = np.asarray(model.feature_weight)
    assert_same(model, loaded, X)
    loaded.save(second)
    assert path.read_bytes() == second.read_bytes()
    assert fitted(loaded, X, y, sample_weight=weight).coef_.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize("kind", [t for t in CONSTRAINT_TYPES if t is not Custom], ids=lambda kind: kind.__name__)
def test_constraints_are_stored_by_name(kind, tmp_path):
    X, y = data("squared")
    constraint = next(one for one in CONSTRAINTS if type(one) is kind)
    level = 0.37 * float(constraint.phi(1.0))
    model = fitted(SparseRegressor(level=level, constraint=constraint, tol=1e-3), X, y)
    loaded = there_and_back(model, tmp_path / "file")
    assert loaded.constraint == constraint and loaded.constraint_ == constraint


def test_losses_and_subsolvers_are_stored_by_name(tmp_path):
    X, y = data("squared")
    for kind in LOSS_TYPES:
        if kind().kind == "margin":
            continue
        model = fitted(SparseRegressor(kind(), n_features=1), X, np.abs(y) + 0.1)
        assert there_and_back(model, tmp_path / "file").loss == kind()
    for kind in SUBSOLVERS.values():
        model = fitted(SparseRegressor(level=0.5, tol=1e-2), X, y).set_params(subsolver=kind())
        assert there_and_back(model, tmp_path / "file").subsolver == kind()


@pytest.mark.parametrize(
    "classes",
    [
        np.array([0, 1]),
        np.array([3, -7], np.int8),
        np.array([2.0, 3.0]),
        np.array([False, True]),
        np.array(["b", "a"]),
        np.array(["long enough", "b"], "<U40"),
        np.array(["ä", "ß"], object),
        np.array([2**63, 1], np.uint64),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_classes_keep_their_values_and_types(classes, tmp_path):
    X, y = data()
    model = SparseClassifier(n_features=1).fit(X, classes[(y > 0).astype(int)])
    loaded = there_and_back(model, tmp_path / "file")
    assert same(loaded.classes_, model.classes_) and same(loaded.predict(X), model.predict(X))


def test_all_that_a_fit_sets_is_stored():
    X, y = data()
    for model in (SparseClassifier(level=1.5), SparseClassifierCV(n_features=[1, 2], cv=2), SparseClassifier()):
        fit = fitted(model, pd.DataFrame(X, columns=list("abcdefgh")), y)
        if isinstance(model, SparseClassifier) and model.level is None:
            fit.partial_fit(pd.DataFrame(X, columns=list("abcdefgh")), y)
        assert set(state(fit)) <= set(FITTED)


def test_a_stream_predicts_and_is_not_gone_on_with(tmp_path):
    X, y = data()
    model = SparseClassifier(n_features=2).partial_fit(X, y, classes=[-1, 1])
    loaded = there_and_back(model, tmp_path / "file")
    assert_same(model, loaded, X)
    with pytest.raises(InvalidInputError, match="read from a file"):
        loaded.partial_fit(X, y)
    assert same(loaded.coef_, model.coef_)
    clone(loaded).partial_fit(X, y, classes=[-1, 1])
    loaded.fit(X, y).partial_fit(X, y)


def test_a_sparse_model_is_a_small_file(tmp_path):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((50, 20000), density=0.01, format="csr", rng=rng)
    model = SparseRegressor(n_features=3, standardize=False).fit(X, rng.standard_normal(50))
    path = tmp_path / "file"
    assert_same(model, there_and_back(model, path), X)
    assert path.stat().st_size < 8 * 20000 + 8000  # scale_, and little else


def test_the_public_reader_reads_them(tmp_path):
    X, y = data()
    fitted(SparseClassifier(n_features=2), X, y).save(tmp_path / "file")
    with safe_open(tmp_path / "file", "numpy") as file:
        about = file.metadata()
        model = json.loads(about["model"])["dict"]
        values = model["fitted"]["dict"]["coef_"]["fields"]["values"]["array"]
        assert file.get_tensor(values).shape == (1, 2)
    assert about["format"] == "levelprox model" and about["format_version"] == "1"
    assert json.loads(about["versions"])["levelprox"] == levelprox.__version__
    assert json.loads(about["data"])["shape"] == [60, 8]
    assert read_model(tmp_path / "file").versions["numpy"] == np.__version__


# --- what cannot be stored


def test_attributes_that_predictions_do_not_need_are_left_out_with_a_warning(tmp_path):
    X, y = data()
    given = {"callback": lambda record: None, "cv": KFold(3), "scoring": lambda *_: 0.5}
    model = fitted(SparseClassifierCV(n_features=[1], **given), X, y)
    model.random_state = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="is not kept in the file") as caught:
        model.save(tmp_path / "file")
    assert [str(one.message).split("=")[0] for one in caught] == ["callback", "cv", "random_state", "scoring"]
    assert all(one.filename == __file__ for one in caught)
    loaded = levelprox.load(tmp_path / "file")
    assert [getattr(loaded, name) for name in (*given, "random_state")] == [None] * 4


def test_attributes_that_cannot_be_stored_are_named(tmp_path):
    X, y = data("squared")
    own = Custom(1.0, lambda t: np.hypot(1, t) - 1, lambda t: t / np.hypot(1, t), 1.0, 1.0)
    model = fitted(SparseRegressor(level=0.5, constraint=own, tol=1e-2), X, y)
    with pytest.raises(InvalidInputError, match=r"constraint=.* cannot be stored without pickle"):
        model.save(tmp_path / "file")

    class Mine(SparseRegressor):
        """Not a class of levelprox."""

    with pytest.raises(FileFormatError, match="'Mine' is not one of"):
        Mine(n_features=1).fit(X, y).save(tmp_path / "file")
    assert not any(tmp_path.iterdir())


def test_a_model_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        SparseClassifier().save(tmp_path / "file")


def test_a_model_that_was_changed_into_another_is_not_saved(tmp_path):
    X, y = data()
    model = fitted(SparseClassifier(n_features=1, feature_weight=[0, 0, 1, 1, 1, 1, 1, 1]), X, y)
    with pytest.raises(FileFormatError, match="SparseClassifier: 3 features are not zero, and at most level_ = 1"):
        model.set_params(feature_weight=None).save(tmp_path / "file")


# --- writing


def test_nothing_is_overwritten_unless_asked(tmp_path):
    X, y = data()
    path = tmp_path / "file.levelprox"
    first, second = fitted(SparseClassifier(n_features=1), X, y), fitted(SparseClassifier(n_features=2), X, y)
    first.save(path)
    with pytest.raises(FileExistsError) as caught:
        second.save(str(path))
    assert caught.value.filename == str(path)
    assert str(caught.value) == f"[Errno 17] File exists; overwrite=True replaces it: '{path}'"
    assert levelprox.load(path).n_features == 1
    second.save(path, overwrite=True)
    assert levelprox.load(path).n_features == 2
    assert [one.name for one in tmp_path.iterdir()] == ["file.levelprox"]


@pytest.mark.process
def test_of_two_processes_one_whole_file_is_left(tmp_path):
    X, y = data()
    path, start = tmp_path / "file", tmp_path / "start"
    models = [fitted(SparseClassifier(n_features=k), X, y) for k in (1, 2)]
    models[1].save(tmp_path / "other")
    script = (
        "import sys, os, levelprox\n"
        "model = levelprox.load(sys.argv[1]); open(sys.argv[3], 'w').close()\n"
        "for _ in range(20): model.save(sys.argv[2], overwrite=True); levelprox.load(sys.argv[2])\n"
    )
    seen = set()
    with Child(script, tmp_path / "other", path, start) as other:
        while not start.exists() and other.is_alive():
            time.sleep(0.001)
        while other.is_alive():
            models[0].save(path, overwrite=True)
            seen.add(levelprox.load(path).n_features)
        assert other.ended() == Ended(0, "", "")
    assert seen <= {1, 2} and levelprox.load(path).n_features in (1, 2)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "other", "start"]


# --- reading what is no model


def small() -> bytes:
    X, y = data(n=30, d=3)
    return b"".join(container.pack(packed(fitted(SparseClassifier(n_features=1), X, y))))


def is_refused(path: Path) -> bool:
    try:
        levelprox.load(path)
    except FileFormatError as error:
        return str(error).startswith(f"{path}: ")
    return False


def test_every_truncation_and_every_byte_counts(tmp_path):
    path, whole, draw = tmp_path / "file", small(), random.Random(0)
    path.write_bytes(whole)
    assert levelprox.load(path).n_features == 1
    handle = os.open(path, os.O_RDWR)
    for i in range(len(whole)):
        for bit in range(8) if LONG else [draw.randrange(8)]:
            os.pwrite(handle, bytes([whole[i] ^ 1 << bit]), i)
            assert is_refused(path), f"bit {bit} of byte {i}"
        os.pwrite(handle, whole[i : i + 1], i)
    assert levelprox.load(path).n_features == 1
    os.pwrite(handle, b"\n", len(whole))
    assert is_refused(path)
    for i in reversed(range(len(whole))):
        os.truncate(handle, i)
        assert is_refused(path), f"{i} bytes"
    os.close(handle)


def test_files_of_another_kind_are_refused(tmp_path):
    X, y = data()
    model, path = fitted(SparseClassifier(n_features=1), X, y), tmp_path / "a\nb"
    np.savez(tmp_path / "x.npz", X)
    checkpoint = container.Contents({"format": "levelprox checkpoint", "format_version": "1"}, {})
    kinds = {
        "not a file of levelprox": [b"", b"\0" * 8, pickle.dumps(model), (tmp_path / "x.npz").read_bytes(), b"1 1:2\n"],
        "this is no model, but a 'levelprox checkpoint'": [b"".join(container.pack(checkpoint))],
        "this is no model, but a 'file of another kind'": [b"".join(container.pack(container.Contents({}, {})))],
    }
    for words, files in kinds.items():
        for whole in files:
            path.write_bytes(whole)
            with pytest.raises(FileFormatError, match=words) as caught:
                levelprox.load(path)
            assert "\n" not in str(caught.value)
    with pytest.raises(IsADirectoryError):
        levelprox.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        levelprox.load(tmp_path / "nothing")


@functools.cache
def small_model() -> SparseClassifier:
    X, y = data(n=30, d=3)
    return fitted(SparseClassifier(level=1.5), X, y)


def forged(change, model=None):
    """The contents of a file whose JSON was changed, and whose checksum is right."""
    contents = packed(model or small_model())
    about, arrays = dict(contents.metadata), {name: array.copy() for name, array in contents.arrays.items()}
    tree = json.loads(about["model"])
    change(about, tree["dict"], arrays)
    if "model" in about:
        about["model"] = json.dumps(tree)
        arrays = {name: array for name, array in arrays.items() if f'"{name}"' in about["model"] or name == "z"}
    whole = b"".join(container.pack(container.Contents(about, arrays)))
    return container.unpack(whole, "some.file")


def read(contents: container.Contents):
    found = unpacked(contents, "some.file")
    check_soundness(found.model, "some.file")
    return found.model


def set_fitted(name, value):
    return lambda about, tree, arrays: tree["fitted"]["dict"].__setitem__(name, value)


def set_figure(name, value):
    return lambda about, tree, arrays: tree["fitted"]["dict"]["certificate_"]["fields"].__setitem__(name, value)


def set_array(name, index, value):
    def change(about, tree, arrays):
        place = tree["fitted"]["dict"][name]
        arrays[place["array"]][index] = value

    return change


FORGERIES = {
    "written by levelprox 9.9 (format 7); this is ": lambda about, tree, arrays: about.update(
        format_version="7", versions='{"levelprox": "9.9"}'
    ),
    "'one' is no version": lambda about, tree, arrays: about.update(format_version="one"),
    "the metadata hold ['x']": lambda about, tree, arrays: about.update(x="1"),
    "the versions are not JSON": lambda about, tree, arrays: about.update(versions="{"),
    "the fingerprint of the data is not one": lambda about, tree, arrays: about.update(data='{"shape": [1, 2]}'),
    "data_fingerprint_ cannot be": lambda about, tree, arrays: about.update(
        data='{"shape": [1, 2], "dtype": 3, "n_nonzero": 1, "X": "", "y": ""}'
    ),
    "JSONDecodeError": lambda about, tree, arrays: about.pop("model"),
    "'Pipeline' is not one of": lambda about, tree, arrays: tree.update({"class": "Pipeline"}),
    "must have a class, parameters and fitted attributes": lambda about, tree, arrays: tree.pop("class"),
    "has no coef0_": set_fitted("coef0_", 1),
    "has no alpha": lambda about, tree, arrays: tree["parameters"]["dict"].update(alpha=1),
    "nothing refers to the arrays ['z']": lambda about, tree, arrays: arrays.update(z=np.ones(1)),
    "has scale_, and this one has not": lambda about, tree, arrays: tree["fitted"]["dict"].pop("scale_"),
    "scale_ cannot be": set_array("scale_", 0, -1.0),
    "intercept_ cannot be": set_array("intercept_", 0, np.nan),
    "coef_ cannot be": lambda about, tree, arrays: tree["fitted"]["dict"].update(coef_={"tuple": []}),
    "(1, 4) is expected": set_fitted("n_features_in_", 4),
    "classes_ cannot be": set_fitted("classes_", {"words": ["a"], "letters": 1, "shape": [1]}),
    "coef_ has the shape": set_fitted("classes_", {"words": ["a", "b", "c"], "letters": 1, "shape": [3]}),
    "a class twice": set_fitted("classes_", {"words": ["a", "a"], "letters": 1, "shape": [2]}),
    "feature_names_in_ has the shape": set_fitted("feature_names_in_", {"words": ["a"], "letters": None, "shape": [1]}),
    "is above level_": set_array("scale_", slice(None), 1e6),
    "and certificate_ has": set_fitted("level_", 9.5),
    "psi = inf, which is not a number": set_figure("psi", {"float": "inf"}),
    "scale = inf, which is not a number": set_figure("scale", {"float": "inf"}),
    "multiplier = nan, which is not a number": set_figure("multiplier", {"float": "nan"}),
    "multiplier_ = 123.0, and certificate_ has": set_fitted("multiplier_", 123.0),
    "status_ is solved, and the KKT residual 1000.0 above tol": set_figure("kkt", 1e3),
    "has stationarity = 0.5": set_figure("stationarity", 0.5),
    "has complementarity = 0.5": set_figure("complementarity", 0.5),
    "has near_epsilon = 0.5": set_figure("near_epsilon", 0.5),
    "status_ cannot be": set_fitted("status_", 0),
    "n_iter_ cannot be": set_fitted("n_iter_", True),
    "history_ cannot be": set_fitted("history_", {"tuple": [1]}),
    "certificate_ cannot be": set_fitted("certificate_", {"kind": "Exchanges", "fields": {"examined": 0, "total": 0}}),
    "loss must be one of": lambda about, tree, arrays: tree["parameters"]["dict"].update(loss="squared"),
    "multi_class must be": lambda about, tree, arrays: tree["parameters"]["dict"].update(multi_class=3),
    "is no kind of data": set_fitted("message_", {"eval": "1"}),
    "KeyError: 'Custom'": set_fitted("constraint_", {"kind": "Custom", "fields": {}}),
}


@pytest.mark.parametrize("words", FORGERIES)
def test_inconsistent_contents_are_refused(words):
    """Files with a right checksum, whose parts contradict each other or name unknown classes."""
    read(forged(lambda *_: None))  # the others fail by what was changed alone
    with pytest.raises(FileFormatError, match=r"^some\.file: ") as caught:
        read(forged(FORGERIES[words]))
    assert words in str(caught.value)


def places(tree: object, here: tuple = ()) -> list[tuple]:
    """The ways to every part of a tree."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [here, *(way for key, part in inside for way in places(part, (*here, key)))]


ODD = [None, True, -1, 0, 1e308, 10**30, "", "a0", "x", [], [[]], {}, {"array": "a0"}, {"array": "a1"}, {"tuple": []}]
ODD += [{"float": "nan"}, {"dict": {}}, {"pairs": [[0, 0]]}, {"kind": "MCP", "fields": {"lam": 1, "theta": 1}}]
ODD += [{"words": [[], {"tuple": []}], "letters": None, "shape": [2]}, {"kind": "Status", "value": 0}]
ODD += [{"records": "Record", "columns": {}}, {"kind": "Columns", "fields": {"shape": 1, "columns": 2, "values": 3}}]


def test_odd_files_are_refused_or_sound():
    """Any part of the JSON replaced by any other: no error except `FileFormatError`, and a loaded model can predict."""
    X, y = data(n=30, d=3)
    draw, read_anyway = random.Random(0), 0
    kinds = [SparseClassifier(level=1.5), SparseRegressorCV(n_features=[1, 2], cv=2), SparseClassifier(n_features=1)]
    contents = [packed(fitted(model, X, y)) for model in kinds]
    for _ in range(30_000 if LONG else 500):
        one = draw.choice(contents)
        tree = json.loads(one.metadata["model"])
        for _ in range(draw.choice([1, 1, 2])):
            *way, last = draw.choice(places(tree)[1:])
            part = tree
            try:
                for key in way:
                    part = part[key]
                part[last] = copy.deepcopy(draw.choice(ODD))
            except (KeyError, IndexError, TypeError):
                continue  # the first change took the place of the second away
        text = json.dumps(tree)
        arrays = {name: array for name, array in one.arrays.items() if f'"{name}"' in text}
        try:
            model = read(container.Contents({**one.metadata, "model": text}, arrays))
        except FileFormatError:
            continue
        read_anyway += 1
        assert model.predict(X).shape == (30,)
        assert str(model) and model.get_support().shape == (3,)
    assert read_anyway > 20  # parameters that a prediction does not need may be anything


def test_claims_that_no_search_can_make_are_refused():
    X, y = data(n=30, d=3)
    model = fitted(SparseClassifier(n_features=1), X, y)
    whole = model.certificate_
    for words, change in {
        "is not a gain": {"multiplier": math.inf},
        "but not how much": {"multiplier": math.nan, "addition": 2},
        "5 of 2 swaps": {"swaps": levelprox.Swaps(5, 2)},
        "stationarity = nan": {"stationarity": math.nan},
    }.items():
        model.certificate_ = replace(whole, **change)
        model.multiplier_ = model.certificate_.multiplier
        with pytest.raises(FileFormatError, match=words):
            check_soundness(model, "file")
    model.certificate_ = replace(whole, multiplier=math.nan, addition=None, swaps=levelprox.Swaps(0, 0))
    model.multiplier_ = math.nan
    loaded = read(packed(model))
    assert math.isnan(loaded.multiplier_) and math.isnan(loaded.certificate_.multiplier)


def test_more_features_than_allowed_are_refused():
    X, y = data(n=30, d=3)
    model = fitted(SparseClassifier(n_features=1), X, y)
    model.coef_ = np.ones_like(model.coef_)
    with pytest.raises(FileFormatError, match="3 features are not zero, and at most level_ = 1"):
        read(packed(model))


@pytest.mark.parametrize("shape", [[1, 10**12], [10**12, 3], [3], [1, -3], ["a", 3], [1, 2, 3]])
def test_coefficients_of_an_impossible_shape_are_refused(shape):
    def change(about, tree, arrays):
        tree["fitted"]["dict"]["coef_"]["fields"]["shape"]["tuple"] = shape

    X, y = data(n=30, d=8)
    with pytest.raises(FileFormatError, match="coef_"):
        read(forged(change, fitted(SparseClassifier(n_features=1), X, y)))


@pytest.mark.parametrize("rows", [2_000_000, 2])
def test_rows_of_coefficients_are_counted_before_there_are_any(rows):
    """As many as there are classes: a file of a few bytes must not make gigabytes of zeros."""

    def change(about, tree, arrays):
        coef = tree["fitted"]["dict"]["coef_"]["fields"]
        coef["shape"]["tuple"] = [rows, 8]
        arrays[coef["columns"]["array"]] = np.empty(0, np.int64)
        arrays[coef["values"]["array"]] = np.empty((rows, 0))

    X, y = data(n=30, d=8)
    contents = forged(change, fitted(SparseClassifier(n_features=1), X, y))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"coef_ cannot be built: .* \(1, 8\) is expected"):
            read(contents)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20


# --- files of all versions


def told_of(path: Path) -> tuple[np.ndarray, dict[str, object]]:
    told = json.loads((path.parent / "expected.json").read_text())
    return np.array(told["X"]), told["models"][path.stem]


@pytest.mark.parametrize("path", FOR_EVER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files_of_all_versions_are_read_for_ever(path):
    X, told = told_of(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == told["sha256"], "fixtures are never made again"
    assert path.stat().st_size < 10_000
    model = levelprox.load(path)
    assert type(model).__name__ == told["class"] and model.level_ == told["level"]
    assert np.asarray(model.coef_, np.float64).tolist() == told["coef"] and str(model.coef_.dtype) == told["dtype"]
    assert np.asarray(model.intercept_, np.float64).tolist() == told["intercept"]
    X = X.astype(told["dtype"])
    close = {"rtol": 1e-6 if told["dtype"] == "float32" else 1e-12, "atol": 0}
    if "classes" in told:
        assert model.classes_.tolist() == told["classes"] and model.classes_.dtype.str == told["classes_dtype"]
        assert model.predict(X).tolist() == told["predict"]
    else:
        np.testing.assert_allclose(model.predict(X), told["predict"], **close)
    if "predict_proba" in told:
        np.testing.assert_allclose(model.predict_proba(X), told["predict_proba"], **close)
    assert getattr(getattr(model, "certificate_", None), "psi", None) == told["psi"]


def test_this_version_has_files_of_every_kind():
    here = [path for path in FOR_EVER if path.parent.name == f"v{VERSION}"]
    kinds = {type(levelprox.load(path)) for path in here}
    assert kinds == {SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV}
    expected = json.loads((FIXTURES / f"v{VERSION}" / "expected.json").read_text())["models"]
    assert sorted(expected) == sorted(path.stem for path in here)


def test_pickle_and_copies_stay_as_they_are():
    X, y = data()
    model = fitted(SparseClassifier(n_features=2), X, y)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_same(model, other, X)


def test_warnings_are_quiet_in_the_usual_case(tmp_path):
    X, y = data()
    model = fitted(SparseClassifier(n_features=2), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there_and_back(model, tmp_path / "file")
    assert container.parsed(packed(model).metadata["versions"])["levelprox"] == levelprox.__version__
