"""Tables with text and missing values: encoded and imputed on request, in the same way at prediction."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import levelprox
from levelprox import SparseClassifier, SparseRegressor
from levelprox.estimators import persistence
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io import container
from levelprox.io.preprocessing import Column, Preprocessing

RNG = np.random.default_rng(3)
N = 60
CITY = np.array(["Bern", "Basel", "Chur"], object)[RNG.integers(0, 3, N)]
SEX = np.array(["f", "m"], object)[RNG.integers(0, 2, N)]
AGE = RNG.integers(20, 60, N).astype(float)
ZIP = np.array(["01", "02", "10"], object)[RNG.integers(0, 3, N)]
ROOMS = RNG.integers(1, 6, N).astype(float)
PRICE = 3.0 * ROOMS + 4.0 * (CITY == "Bern") + 2.0 * (ZIP == "01") + 0.2 * RNG.standard_normal(N)
FLATS = pl.DataFrame({"city": CITY, "sex": SEX, "age": AGE, "zip": ZIP, "rooms": ROOMS, "price": PRICE})


def holes(frame):
    """Some values of the first rows missing."""
    row = pl.int_range(pl.len())
    return frame.with_columns(
        pl.when(row % 7 == 2).then(None).otherwise(pl.col("rooms")).alias("rooms"),
        pl.when(row == 4).then(None).otherwise(pl.col("city")).alias("city"),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder: flats.csv, holes.csv, and flats.parquet."""
    folder = tmp_path_factory.mktemp("tables")
    FLATS.write_csv(folder / "flats.csv")
    FLATS.write_parquet(folder / "flats.parquet")
    holes(FLATS).write_csv(folder / "holes.csv")
    return folder


WORDS = ("--target", "price", "--features", 3, "-q")
ONE_HOT = ("--categorical", "city,sex,zip")


def by_hand():
    """The features, by a plain implementation."""
    columns = {f"city={one}": one == CITY for one in ("Basel", "Bern", "Chur")} | {"sex=m": SEX == "m", "age": AGE}
    columns |= {f"zip={one}": one == ZIP for one in ("01", "02", "10")} | {"rooms": ROOMS}
    return pd.DataFrame(columns).astype(float)


@pytest.mark.parametrize("name", ["flats.csv", "flats.parquet"])
def test_columns_of_text_become_features(name, folder, run, tmp_path):
    code, out, err = run("fit", folder / name, *WORDS, *ONE_HOT, "--json", "--out", tmp_path / "m")
    assert (code, err) == (0, "")
    model, loaded = SparseRegressor(n_features=3).fit(by_hand(), PRICE), levelprox.load(tmp_path / "m")
    assert loaded.feature_names_in_.tolist() == by_hand().columns.tolist()
    assert loaded.get_feature_names_out().tolist() == ["city=Bern", "zip=01", "rooms"]
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert json.loads(out)["preprocessing"]["columns"][0] == {"name": "city", "categories": ["Basel", "Bern", "Chur"]}
    assert run("certify", tmp_path / "m", folder / name, "--target", "price")[0] == 0
    code, out, err = run("predict", tmp_path / "m", folder / name)
    assert (code, err) == (0, "")
    np.testing.assert_array_equal([float(one) for one in out.split()[1:]], model.predict(by_hand()))


def test_auto_takes_the_columns_of_text_and_pages_and_tests_know_them(folder, run, tmp_path):
    words = ("--categorical", "auto", "--test", folder / "flats.csv", "--json")
    code, out, _ = run("fit", folder / "flats.csv", *WORDS, *words, "--report", tmp_path / "page")
    found = json.loads(out)
    assert code == 0 and {one["name"] for one in found["features"]} == {"city=Bern", "rooms", "zip"}  # zip is a number
    assert found["score"]["train"] == found["score"]["test"] and "city=Bern" in (tmp_path / "page").read_text()
    code, out, _ = run("path", folder / "flats.csv", "--target", "price", "--features", "2", "-q", *words)
    assert code == 0 and set(json.loads(out)["path"][0]["features"]) == {"city=Bern", "rooms"}
    code, out, _ = run("fit", folder / "flats.csv", *WORDS, "--drop", "city", "--drop", "sex", *words)
    assert code == 0 and "preprocessing" not in json.loads(out)


def test_predict_needs_the_columns_of_features_in_use_alone(folder, run, tmp_path):
    assert run("fit", folder / "flats.csv", *WORDS, *ONE_HOT, "--out", tmp_path / "m")[0] == 0
    FLATS.select("zip", "rooms", "city").write_csv(tmp_path / "few.csv")
    assert run("predict", tmp_path / "m", tmp_path / "few.csv") == run("predict", tmp_path / "m", folder / "flats.csv")
    FLATS.select("zip", "rooms").write_csv(tmp_path / "few.csv")
    code, _, err = run("predict", tmp_path / "m", tmp_path / "few.csv")
    assert code == 65 and "the model's column 'city' is missing" in err


def test_categories_of_numerals_stay_text_in_a_file_that_has_no_others(folder, run, tmp_path):
    """`01` would be read as 1."""
    frame = FLATS.with_columns(zip=pl.Series(np.where(ZIP == "10", "x", ZIP).tolist()))
    frame.write_csv(tmp_path / "a.csv")
    assert run("fit", tmp_path / "a.csv", *WORDS, "--categorical", "auto", "--out", tmp_path / "m")[0] == 0
    some = frame.filter(pl.col("zip") == "01")
    some.write_csv(tmp_path / "b.csv")
    code, out, err = run("predict", tmp_path / "m", tmp_path / "b.csv")
    assert (code, err) == (0, "")
    np.testing.assert_allclose([float(one) for one in out.split()[1:]], some["price"].to_numpy(), atol=1.0)


def test_a_new_category_counts_as_none_of_the_known_ones_with_a_warning(folder, run, tmp_path):
    assert run("fit", folder / "flats.csv", *WORDS, *ONE_HOT, "--out", tmp_path / "m")[0] == 0
    head = FLATS[:2].with_columns(city=pl.Series(["Genf", "Genf"]))
    head.write_csv(tmp_path / "new.csv")
    code, out, err = run("predict", tmp_path / "m", tmp_path / "new.csv")
    model = levelprox.load(tmp_path / "m")
    made = by_hand()[:2].assign(**{f"city={one}": 0.0 for one in ("Basel", "Bern", "Chur")})
    assert code == 0 and [float(one) for one in out.split()[1:]] == model.predict(made).tolist()
    assert err == (
        "levelprox: warning: column 'city' has the category 'Genf', which the fit has not seen: its features are 0 "
        "there\n"
    )
    assert "Genf" in json.loads(run("predict", tmp_path / "m", tmp_path / "new.csv", "--json")[1])["warnings"][0]


@pytest.mark.parametrize(
    ("how", "value"),
    [
        ("median", np.median),
        pytest.param("mean", np.mean, marks=pytest.mark.extended),
        pytest.param("most-frequent", None, marks=pytest.mark.extended),
    ],
)
def test_missing_values_are_imputed_by_what_was_stored(how, value, folder, run, tmp_path):
    code, out, _ = run(
        "fit", folder / "holes.csv", *WORDS, *ONE_HOT, "--impute", how, "--json", "--out", tmp_path / "m"
    )
    there = holes(FLATS)["rooms"].drop_nulls().to_numpy()
    counts = dict(zip(*np.unique(there, return_counts=True), strict=True))
    wanted = max(counts, key=counts.get) if value is None else value(there)
    stored = {one["name"]: one["fill"] for one in json.loads(out)["preprocessing"]["columns"]}
    assert code == 0 and stored["rooms"] == pytest.approx(wanted, rel=1e-15)
    cities = holes(FLATS)["city"].drop_nulls().to_list()
    assert stored["city"] == max(sorted(set(cities)), key=cities.count)
    row = "city,zip,rooms,age,sex\nBern,01,{},{},f\n{},01,3,NA,f\n"
    (tmp_path / "gaps.csv").write_text(row.format("", 30, ""))
    (tmp_path / "full.csv").write_text(row.format(repr(float(stored["rooms"])), 30, stored["city"]))
    found = run("predict", tmp_path / "m", tmp_path / "gaps.csv")
    assert found[0] == 0 and found == run("predict", tmp_path / "m", tmp_path / "full.csv")
    (tmp_path / "none.csv").write_text("city,zip,rooms,age,sex\nBern,01,,,\nBern,02,,,\n")  # all of a column missing
    assert run("predict", tmp_path / "m", tmp_path / "none.csv")[0] == 0
    assert run("certify", tmp_path / "m", folder / "holes.csv", "--target", "price")[0] == 0


def test_missing_values_that_nothing_was_said_of_are_errors(folder, run, tmp_path):
    code, _, err = run("fit", folder / "holes.csv", *WORDS, *ONE_HOT)
    assert code == 65 and "row 3, column 'rooms' is missing (9 in this column)" in err and "--impute median" in err
    assert run("fit", folder / "flats.csv", *WORDS, *ONE_HOT, "--out", tmp_path / "m")[0] == 0
    code, _, err = run("predict", tmp_path / "m", folder / "holes.csv")
    assert code == 65 and "column 'city' is missing" in err and "--impute" not in err
    (tmp_path / "inf.csv").write_text("a,b,y\n1,inf,1\n2,3,2\n,4,3\n")
    code, _, err = run("fit", tmp_path / "inf.csv", "--impute", "mean", "-q", "--task", "regression")
    assert code == 65 and "row 1, column 'b' is inf" in err
    (tmp_path / "gone.csv").write_text("a,b,y\n,1,1\n,3,2\n,4,3\n")
    code, _, err = run("fit", tmp_path / "gone.csv", "--impute", "mean", "-q", "--task", "regression")
    assert code == 65 and "column 'a' is missing in every row: drop it" in err


REFUSED = [
    (["--categorical", "citty"], 65, "no column 'citty' for the categories; did you mean 'city'?"),
    (["--categorical", "price"], 65, "--categorical: column 'price' cannot be a feature, too"),
    (["--categorical", "city,,"], 2, "--categorical: a name is empty"),
    (["--impute", "median"], 65, "columns 'city', 'sex' hold no numbers"),
    (["--impute", "mode"], 2, "--impute"),
    (["--categorical", "auto", "--keep", "citi"], 65, "--keep: 'citi' is no feature of"),
    (["--chunked", "--impute", "mean"], 2, "--impute needs the data in memory"),
]


@pytest.mark.parametrize(("words", "code", "message"), REFUSED, ids=[" ".join(words) for words, _, _ in REFUSED])
def test_columns_that_cannot_be_prepared_are_named(words, code, message, folder, run):
    words = [*words, "--drop", "zip"] if words == ["--impute", "median"] else words
    found, out, err = run("fit", folder / "flats.csv", *WORDS, *words)
    assert (found, out, err.count("\n")) == (code, "", 1) and message in err


def test_a_column_with_too_many_texts_is_no_category_by_itself(run, tmp_path):
    pl.DataFrame({"name": [f"n{i}" for i in range(120)], "a": range(120), "y": range(120)}).write_csv(
        tmp_path / "a.csv"
    )
    code, _, err = run("fit", tmp_path / "a.csv", "-q", "--categorical", "auto")
    assert code == 65 and "column 'name' holds 120 different texts" in err
    assert run("fit", tmp_path / "a.csv", "-q", "--categorical", "name", "--features", 1)[0] == 0


def test_options_of_a_model_take_columns_for_all_their_features(folder, run):
    words = (*WORDS[:2], "-q", *ONE_HOT, "--json")
    code, out, _ = run("fit", folder / "flats.csv", *words, "--features", 1, "--keep", "city,sex")
    assert code == 0 and {one["name"] for one in json.loads(out)["features"]} >= {"sex=m", "city=Bern", "rooms"}
    costs = ("--feature-cost", "city=1,sex=1,age=1,zip=5,rooms=2", "--budget", 3)
    code, out, _ = run("fit", folder / "flats.csv", *words, *costs)
    assert code == 0 and {one["name"] for one in json.loads(out)["features"]} == {"city=Bern", "rooms"}


def test_info_shows_the_preprocessing(folder, run, tmp_path):
    words = (*ONE_HOT, "--impute", "median", "--out", tmp_path / "m")
    _, out, _ = run("fit", folder / "flats.csv", *WORDS, *words)
    for text in (out, run("info", tmp_path / "m")[1]):
        assert "city (3), sex (2), zip (3)" in text and "replaced by the median of their column" in text
    assert json.loads(run("info", tmp_path / "m", "--json")[1])["preprocessing"]["impute"] == "median"


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_loaded_model_prepares_frames(kind, folder, run, tmp_path):
    words = (*ONE_HOT, "--impute", "median", "--out", tmp_path / "m")
    assert run("fit", folder / "holes.csv", *WORDS, *words)[0] == 0
    model = levelprox.load(tmp_path / "m")
    raw = kind(holes(FLATS).to_dict(as_series=False))
    made = model.preprocessing_.transform(raw)
    assert isinstance(made, kind) and list(made.columns) == model.feature_names_in_.tolist()
    _, out, _ = run("predict", tmp_path / "m", folder / "holes.csv")
    np.testing.assert_array_equal([float(one) for one in out.split()[1:]], model.predict(made))
    with pytest.raises(InvalidInputError, match=r"give it model\.preprocessing_\.transform\(X\) instead of X"):
        model.predict(raw)
    with pytest.raises(InvalidInputError, match=r"model\.preprocessing_\.transform"):
        levelprox.certify_model(model, raw, PRICE)
    with pytest.raises(ValueError, match="inconsistent") as raised:
        levelprox.certify_model(model, made, PRICE[:3])
    assert "preprocessing_" not in str(raised.value)
    with pytest.raises(InvalidInputError, match="no column 'rooms'"):
        model.preprocessing_.transform(kind({"city": ["Bern"], "sex": ["f"], "age": [3], "zip": ["01"]}))
    with pytest.raises(InvalidInputError, match="must be a pandas or polars DataFrame"):
        model.preprocessing_.transform(np.ones((2, 5)))
    model.save(tmp_path / "again")
    assert levelprox.load(tmp_path / "again").preprocessing_ == model.preprocessing_
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert not hasattr(model.fit(made, PRICE), "preprocessing_")  # not known of this fit


def test_kinds_of_values():
    raw = pd.DataFrame({"a": [1.0, 2.5, np.nan], "b": pd.array([1, None, 3], "Int64"), "c": [True, False, True]})
    made = Preprocessing.learn(raw, ["a", "b", "c"], ["a", "b", "c"], "mean")
    assert [column.categories for column in made.columns] == [("1", "2.5"), ("1", "3"), ("false", "true")]
    assert made.transform(raw).to_numpy().tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 1]]
    made = Preprocessing.learn(raw, ["a", "b", "c"], [], "mean")
    assert made.transform(raw).to_numpy().tolist() == [[1, 1, 1], [2.5, 2, 0], [1.75, 3, 1]]
    with pytest.raises(InvalidInputError, match="two features would be called 'a=1'"):
        Preprocessing.learn(raw.assign(**{"a=1": 1, "a": [1, 2, 3]}), ["a", "a=1"], ["a"], None)
    with pytest.raises(InvalidInputError, match="one category only"):
        Preprocessing.learn(raw.assign(a="x"), ["a"], ["a"], None)
    with pytest.raises(InvalidInputError, match="column 'a' holds 'x' at row 0"):
        made.transform(raw.assign(a="x"))
    with pytest.raises(InvalidInputError, match="column 'a' is missing at row 2"):
        Preprocessing((Column("a"),)).transform(raw)
    with pytest.raises(InvalidInputError, match="infinite at row 0"):
        Preprocessing((Column("a"),)).transform(raw.assign(a=np.inf))


BROKEN = [
    "[]",
    '{"columns": []}',
    '{"columns": [], "impute": "magic"}',
    '{"columns": [{"name": 3}], "impute": null}',
    '{"columns": [{"name": "a", "code": "1"}], "impute": null}',
    '{"columns": [{"name": "a", "fill": "x"}], "impute": null}',
    '{"columns": [{"name": "a", "categories": []}], "impute": null}',
    '{"columns": [{"name": "a", "categories": ["x", "x"]}], "impute": null}',
    '{"columns": [{"name": "a", "categories": ["x"], "fill": "y"}], "impute": null}',
    '{"columns": [{"name": "a"}, {"name": "a"}], "impute": null}',
    '{"columns": [{"name": "other"}], "impute": null}',
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_preprocessing_that_is_none_is_refused(text, tmp_path):
    model = SparseClassifier(n_features=1).fit(pd.DataFrame({"a": [0.0, 1, 2, 3], "b": [1.0, 0, 1, 0]}), [0, 1, 0, 1])
    contents = persistence.packed(model)
    contents.metadata["preprocessing"] = text
    (tmp_path / "m").write_bytes(b"".join(container.pack(contents)))
    with pytest.raises(FileFormatError, match="preprocessing"):
        levelprox.load(tmp_path / "m")


def test_predictions_of_classes_from_raw_tables(run, tmp_path):
    label = np.where(np.median(PRICE) < PRICE, "dear", "cheap").tolist()
    FLATS.drop("price").with_columns(y=pl.Series(label)).write_csv(tmp_path / "a.csv")
    assert (
        run("fit", tmp_path / "a.csv", "--features", 2, "-q", "--categorical", "auto", "--out", tmp_path / "m")[0] == 0
    )
    code, out, _ = run("predict", tmp_path / "m", tmp_path / "a.csv", "--proba")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and np.mean([row["prediction"] == one for row, one in zip(rows, label, strict=True)]) > 0.8
