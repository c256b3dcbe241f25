"""The command line, run in this process: output, files and errors of commands."""

from __future__ import annotations

import csv
import json

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import levelprox
from levelprox import SparseClassifier, SparseRegressor
from levelprox.cli import main
from levelprox.cli._data import infer_task_from_target
from levelprox.cli._options import Task
from levelprox.cli._output import is_formula, plain, safe
from levelprox.cli._parsers import CONSTRAINTS, LOSSES, counts
from levelprox.cli._process import in_shell_words, print_error
from levelprox.cli.path import _csv as path_table
from levelprox.estimators._parameters import CLASSIFICATION_LOSSES, NAMED_CONSTRAINTS, REGRESSION_LOSSES

CANCER = load_breast_cancer(as_frame=True)
DIABETES = load_diabetes(as_frame=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with data: cancer.csv (400 rows), new.csv (the others), dia.parquet, cancer.svm, words.csv."""
    folder = tmp_path_factory.mktemp("data")
    cancer = pl.DataFrame(CANCER.frame.to_dict("list"))
    cancer[:400].write_csv(folder / "cancer.csv")
    cancer[400:].write_csv(folder / "new.csv")
    pl.DataFrame(DIABETES.frame.to_dict("list")).write_parquet(folder / "dia.parquet")
    words = cancer[:200, [0, 1, 2]].with_columns(label=pl.Series(np.where(CANCER.target[:200], "benign", "malignant")))
    words.write_csv(folder / "words.csv")
    rows = zip(CANCER.data.to_numpy().tolist(), CANCER.target.tolist(), strict=True)
    lines = (f"{2 * b - 1} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v) for row, b in rows)
    (folder / "cancer.svm").write_text("\n".join(lines) + "\n")
    return folder


def test_fit_shows_features_certificate_and_scores(files, run):
    code, out, err = run("fit", files / "cancer.csv", "--features", 3, "--test", files / "new.csv")
    assert code == 0
    model = SparseClassifier(n_features=3).fit(CANCER.data[:400], CANCER.target[:400])
    for name in model.get_feature_names_out():
        assert name in out
    assert f"accuracy, test   {model.score(CANCER.data[400:], CANCER.target[400:]):.6g}\n" in out
    assert "3 of at most 3 features" in out and "not improved by any of the 81 swaps" in out and "solved" in out
    assert err == "levelprox: classification, because the target has the 2 values 0, 1 (--task overrides this)\n"


def test_json_is_one_document_on_standard_output(files, run):
    code, out, err = run("fit", files / "dia.parquet", "--level", 4.5, "--constraint", "scad", "--json", "--quiet")
    assert (code, err) == (0, "")
    found = json.loads(out)
    model = SparseRegressor(level=4.5, constraint="scad").fit(DIABETES.data, DIABETES.target)
    assert (
        found["certificate"]["psi"] == pytest.approx(model.certificate_.psi, rel=1e-12) and found["status"] == "solved"
    )
    expected = [model.coef_[j] for j in model.selected_features_]
    np.testing.assert_allclose([feature["coefficient"][0] for feature in found["features"]], expected, rtol=1e-9)
    assert found["data"] | {"path": ""} == {
        "path": "",
        "n_samples": 442,
        "n_features": 10,
        "n_nonzero": None,
        "target": "target",
    }
    assert found["score"] == {"name": "R²", "train": pytest.approx(model.score(DIABETES.data, DIABETES.target))}


def test_cv_chooses_from_a_range(files, run):
    code, out, _ = run("fit", files / "dia.parquet", "--cv", 3, "--features", "1:3", "--json", "-q")
    assert code == 0
    found = json.loads(out)
    assert found["cv"]["n_features"] == [1, 2, 3] and found["chosen"]["n_features"] in (1, 2, 3)


def test_words_are_classes_and_libsvm_labels_whole_numbers(files, run):
    _, out, err = run("fit", files / "words.csv", "--target", "label", "--features", 1)
    assert "positive is malignant, negative benign" in out and "text or booleans" in err
    _, out, _ = run("fit", files / "cancer.svm", "--features", 1)
    assert "positive is 1, negative -1" in out and "x0 is index 1 of the file" in out


def test_a_stream_is_taken_in_by_batches(files, run):
    code, out, _ = run(
        "fit", files / "cancer.svm", "--stream", 100, "--features", 3, "--json", "--test", files / "cancer.svm"
    )
    assert code == 0
    found = json.loads(out)
    X, y = CANCER.data.to_numpy(), 2 * CANCER.target.to_numpy() - 1
    model = SparseClassifier(n_features=3)
    for i in range(0, y.size, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100], classes=[-1, 1])
    assert [feature["index"] for feature in found["features"]] == model.selected_features_.tolist()
    assert found["status"] == "streamed" and found["n_samples_seen"] == 569 and found["certificate"] is None
    code, out, _ = run("fit", files / "cancer.svm", "--stream", 100, "--features", 3)
    assert code == 0 and "569 samples in 6 batches" in out


def test_path_prints_and_writes_a_table(files, run, tmp_path):
    code, out, err = run("path", files / "dia.parquet", "--features", "0,2:3", "--out", tmp_path / "path.csv")
    assert code == 0 and f"wrote {tmp_path / 'path.csv'}" in err
    assert "+bmi, +s5" in out and "+bp" in out
    rows = list(csv.DictReader((tmp_path / "path.csv").read_text().splitlines()))
    assert [row["n_features"] for row in rows] == ["0", "2", "3"] and rows[1]["features"] == "bmi;s5"
    model = SparseRegressor(n_features=2).fit(DIABETES.data, DIABETES.target)
    assert float(rows[1]["loss"]) == pytest.approx(model.certificate_.psi, rel=1e-12)
    code, out, _ = run("path", files / "dia.parquet", "--level", "1.5,0.5", "--json", "--out", tmp_path / "path.json")
    assert code == 0 and [row["level"] for row in json.loads(out)["path"]] == [0.5, 1.5]
    assert json.loads((tmp_path / "path.json").read_text()) == json.loads(out)["path"]


def test_names_with_semicolons_are_a_json_list_in_the_table():
    rows = [{"k": 1, "features": ["a"]}, {"k": 2, "features": ["a", "b;c"]}]
    found = list(csv.reader(path_table(rows).splitlines()))[1:]
    assert found == [["1", "a"], ["2", '["a", "b\\u003bc"]']] and json.loads(found[1][1]) == ["a", "b;c"]


FORMULAS = ["=1+2", "+a", "-b", "@SUM(A1)", "\t=x", " =x", "-inf", "\uff1d1", '=HYPERLINK("http://x","y")', "-1_0"]


@pytest.mark.parametrize("name", [*FORMULAS, "-1", "+1.5e3", "a=b", "a;=b", "a\n=b", 'a"\n=b', "'=x", "_"])
def test_no_cell_of_the_table_is_a_formula(name):
    """Wherever fields are taken to end, and names are read back as they were."""
    rows = [{"k": 1, "loss": -0.5, "features": names} for names in ([name], ["a", name], [name, name])]
    text = path_table(rows)
    for separator in ",;\t":
        cells = [cell for line in csv.reader(text.splitlines(), delimiter=separator) for cell in line]
        assert [cell for cell in cells if is_formula(cell)] == []
    for row, cells in zip(rows, list(csv.reader(text.splitlines()))[1:], strict=True):
        assert cells[:2] == ["1", "-0.5"]
        cell = cells[2]
        assert (json.loads(cell) if cell.startswith("[") else cell.split(";")) == row["features"]


def test_classes_are_written_as_they_are_or_safe_in_a_spreadsheet(run, tmp_path):
    labels = ["=1+2", "-1", "word", "-b"] * 10
    pl.DataFrame({"a": np.tile([0.0, 1, 0, 1], 10), "b": np.tile([0.0, 0, 1, 1], 10), "y": labels}).write_csv(
        tmp_path / "X.csv"
    )
    fitted = SparseClassifier(level=5.0, constraint="l1").fit(pl.read_csv(tmp_path / "X.csv")[["a", "b"]], labels)
    assert fitted.predict(pl.read_csv(tmp_path / "X.csv")[["a", "b"]]).tolist() == labels
    fitted.save(tmp_path / "m")
    code, out, _ = run("predict", tmp_path / "m", tmp_path / "X.csv", "--proba")
    plain = list(csv.DictReader(out.splitlines()))
    assert code == 0 and [row["prediction"] for row in plain] == labels
    code, out, _ = run("predict", tmp_path / "m", tmp_path / "X.csv", "--proba", "--spreadsheet-safe")
    changed = list(csv.DictReader(out.splitlines()))
    assert code == 0 and [row["prediction"] for row in changed] == ["'=1+2", "-1", "word", "'-b"] * 10
    assert [{**row, "prediction": ""} for row in changed] == [{**row, "prediction": ""} for row in plain]
    assert not any(is_formula(cell) for row in changed for cell in (*row, *row.values()))
    assert run("predict", tmp_path / "m", tmp_path / "X.csv", "--json", "--spreadsheet-safe")[0] == 2


def test_numbers_are_never_altered_for_a_spreadsheet(files, run, tmp_path):
    model = tmp_path / "m"
    assert run("fit", files / "dia.parquet", "--features", "1", "--out", model, "-q")[0] == 0
    plain = run("predict", model, files / "dia.parquet")
    assert plain[0] == 0 and run("predict", model, files / "dia.parquet", "--spreadsheet-safe") == plain
    assert [safe(x) for x in (-0.5, -1, float("-inf"), True, "-1", "+2.5", "x")] == [
        -0.5,
        -1,
        float("-inf"),
        True,
        "-1",
        "+2.5",
        "x",
    ]


def test_info_of_data(files, run):
    code, out, _ = run("info", files / "cancer.csv")
    assert code == 0 and "mean radius: Float64" in out and "looks like: classification" in out
    code, out, _ = run("info", files / "cancer.svm", "--json")
    found = json.loads(out)
    assert (found["n_samples"], found["n_features"], found["target"]["counts"]) == (569, 30, {"-1": 212, "1": 357})


@pytest.fixture(scope="module")
def model(files):
    """A model of cancer.csv, by the command line."""
    path = files / "model.levelprox"
    assert main(["fit", str(files / "cancer.csv"), "--features", "3", "--out", str(path), "-q"]) == 0
    return path


def test_predict_says_what_the_model_does(files, model, run, tmp_path):
    code, out, _ = run("predict", model, files / "new.csv", "--proba")
    rows = list(csv.DictReader(out.splitlines()))
    fitted = levelprox.load(model)
    assert code == 0 and [int(row["prediction"]) for row in rows] == fitted.predict(CANCER.data[400:]).tolist()
    found = [[float(row[f"probability_{label}"]) for label in (0, 1)] for row in rows]
    np.testing.assert_array_equal(found, fitted.predict_proba(CANCER.data[400:]))
    code, out, _ = run("predict", model, files / "new.csv", "--out", tmp_path / "p.csv")
    assert (code, out) == (0, "") and (tmp_path / "p.csv").read_text().splitlines()[1:] == [
        row["prediction"] for row in rows
    ]
    assert run("predict", model, files / "new.csv", "--out", tmp_path / "p.csv")[0] == 73
    assert run("predict", model, files / "new.csv", "--out", tmp_path / "p.csv", "--force")[0] == 0
    _, out, _ = run("predict", model, files / "new.csv", "--json")
    assert json.loads(out)["prediction"] == fitted.predict(CANCER.data[400:]).tolist()


def test_columns_are_found_by_name_wherever_they_are(files, model, run, tmp_path):
    new = pl.read_csv(files / "new.csv")
    new.select(["target", *reversed(new.columns[:-1])]).with_columns(id=pl.lit("x")).write_csv(tmp_path / "turned.csv")
    assert run("predict", model, tmp_path / "turned.csv")[1] == run("predict", model, files / "new.csv")[1]
    new.drop("worst area").write_csv(tmp_path / "fewer.csv")
    code, _, err = run("predict", model, tmp_path / "fewer.csv")
    assert code == 65 and "the model's feature 'worst area' is missing" in err


def test_predict_needs_only_columns_with_coefficients(files, model, run, tmp_path):
    used = levelprox.load(model).get_feature_names_out().tolist()
    new = pl.read_csv(files / "new.csv")
    new.select(used).with_columns(pl.lit(None).alias("mean area")).write_csv(tmp_path / "few.csv")
    assert run("predict", model, tmp_path / "few.csv", "--proba") == run("predict", model, files / "new.csv", "--proba")
    new.with_columns(pl.lit(None).alias(used[0])).write_csv(tmp_path / "few.csv")
    code, _, err = run("predict", model, tmp_path / "few.csv")
    assert code == 65 and f"column {used[0]!r} is missing" in err and "--drop" not in err


def test_certify_says_claim_by_claim_whether_it_holds(files, model, run):
    code, out, _ = run("certify", model, files / "cancer.csv")
    assert code == 0 and "The data are those of the fit." in out
    assert "every claim that was examined holds; not examined: swaps, message_" in out
    code, out, _ = run("certify", model, files / "cancer.csv", "--prove", "--json")
    found = json.loads(out)
    assert code == 0 and found["hold"] and found["not_examined"] == ["message_, history_, n_iter_"]
    assert all(claim["holds"] for claim in found["claims"] if claim["name"] not in found["not_examined"])
    code, out, _ = run("certify", model, files / "new.csv")
    assert code == 4 and "DOES NOT HOLD" in out and "NOT every claim holds" in out and "they differ in" in out


def test_info_of_a_model(files, model, run):
    code, out, _ = run("info", model)
    assert code == 0 and "SparseClassifier of 30 features" in out and "400 samples" in out and "n_features=3" in out
    found = json.loads(run("info", model, "--json")[1])
    assert found["kind"] == "model" and found["versions"]["levelprox"] == levelprox.__version__
    assert found["certificate"]["exchanges"]["proved"] is True


def test_a_checkpoint_is_gone_on_from(files, run, tmp_path):
    words = ("fit", files / "dia.parquet", "--features", 5, "--json", "-q", "--checkpoint", tmp_path / "state")
    code, out, _ = run(*words, "--checkpoint-every", 0)
    assert code == 0 and (tmp_path / "state").exists()
    code, _, err = run(*words)
    assert code == 73 and "--resume continues from it, --restart replaces it" in err
    code, again, err = run(*words, "--resume")
    assert err == ""
    assert code == 0 and json.loads(again)["features"] == json.loads(out)["features"]
    assert run(*words, "--force")[0] == 73 and run(*words, "--restart")[0] == 0
    code, out, _ = run("info", tmp_path / "state")
    assert code == 0 and "a checkpoint; --resume continues from it" in out and "#" not in out and "journal" not in out
    assert ["k", "5"] in [line.split() for line in out.splitlines()]
    assert json.loads(run("info", tmp_path / "state", "--json")[1])["metadata"]["k"] == "5"
    code, _, err = run(
        "fit", files / "dia.parquet", "--features", 4, "-q", "--checkpoint", tmp_path / "state", "--resume"
    )
    assert code == 65 and str(tmp_path / "state") in err


def test_a_checkpoint_is_given_up_only_for_a_fit_that_begins(files, run, tmp_path):
    state = tmp_path / "state"
    words = ("-q", "--features", 2, "--checkpoint", state)
    assert run("fit", files / "dia.parquet", *words)[0] == 0
    before = state.read_bytes()
    assert run("fit", files / "words.csv", *words, "--restart")[0] == 65  # no target
    assert run("fit", files / "dia.parquet", *words, "--restart", "--test", files / "new.csv")[0] == 65
    assert state.read_bytes() == before
    state.write_bytes(before[:-1])  # damaged, but a checkpoint of levelprox
    assert run("fit", files / "dia.parquet", *words, "--restart")[0] == 0


def test_a_page_is_written_of_a_fit_and_of_a_path(files, run, tmp_path):
    report = tmp_path / "page.html"
    data = (files / "cancer.csv", "--test", files / "new.csv", "-q")
    assert run("fit", *data, "--features", 2, "--report", report)[0] == 0
    assert report.read_text().startswith("<!DOCTYPE html") and "worst" in report.read_text()
    assert run("path", *data, "--features", "1:2", "--report", report)[0] == 73
    assert run("path", *data, "--features", "1:2", "--report", report, "--force")[0] == 0


def test_accept_inaccurate_and_quiet(files, run):
    words = ("fit", files / "dia.parquet", "--level", 2.5, "--max-iter", 0)
    code, _, err = run(*words)
    assert code == 3 and "levelprox: warning: " in err
    code, _, err = run(*words, "--accept-inaccurate", "--quiet")
    assert (code, err) == (0, "")


def test_the_same_with_any_number_of_threads(files, run):
    words = ("fit", files / "dia.parquet", "--features", 3, "--json", "-q")
    assert (
        json.loads(run(*words, "--threads", 1)[1])["features"] == json.loads(run(*words, "--threads", 2)[1])["features"]
    )


def test_names_of_options_in_capitals(files, run):
    for words in (
        ("--loss", "Huber:1.5", "--features", 1),
        ("--loss", "Squared", "--level", 1.5, "--constraint", "MCP"),
        ("--task", "Regression", "--criterion", "BIC", "--features", "1,2"),
    ):
        code, _, err = run("fit", files / "dia.parquet", *words, "--json")
        assert code == 0, err


def test_parameters_of_losses(files, run):
    for loss in ("huber:1.5", "quantile:0.9"):
        code, out, _ = run("fit", files / "dia.parquet", "--loss", loss, "--features", 1, "--json")
        assert code == 0 and len(json.loads(out)["features"]) == 1


def test_weights_and_columns_to_drop(files, run, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    weight = rng.integers(1, 4, 40)
    y = X[:, 0] + rng.standard_normal(40)
    frame = pl.DataFrame({"name": ["n"] * 40, "a": X[:, 0], "b": X[:, 1], "w": weight, "price": y})
    frame.write_csv(tmp_path / "a.csv")
    words = ("--target", "price", "--weight", "w", "--drop", "name", "--features", 1, "--json", "-q")
    code, out, _ = run("fit", tmp_path / "a.csv", *words)
    model = SparseRegressor(n_features=1).fit(X, y, weight)
    assert code == 0
    assert json.loads(out)["features"][0]["coefficient"] == [pytest.approx(model.coef_[0], rel=1e-9)]


@pytest.mark.parametrize("drop", ["--drop=name,a,b", "--drop=name,b,a"])
def test_a_list_of_columns_to_drop(run, tmp_path, drop):
    """Names with commas between them, as of --keep; a column whose own name has a comma takes precedence."""
    frame = pl.DataFrame(
        {"name": ["n"] * 9, "a": range(9), "b": range(9), "a,b": range(9), "c": range(9), "y": range(9)}
    )
    frame.write_csv(tmp_path / "a.csv")
    code, out, err = run("fit", tmp_path / "a.csv", drop, "--drop", "a,b", "--features", 2, "--json", "-q")
    assert code == 0, err
    assert [one["name"] for one in json.loads(out)["features"]] == ["c"]
    code, _, err = run("fit", tmp_path / "a.csv", "--drop", "name,d", "--features", 2)
    assert code == 65 and "no column 'd' for the columns to drop" in err


USAGE = [
    (["fit"], "Missing argument 'DATA'"),
    (["fit", "cancer.csv", "--features", "3", "--level", "2"], "give --features or --level, not both"),
    (["fit", "cancer.csv", "--features", "1:5"], "several budgets are for --cv"),
    (["fit", "cancer.csv", "--features", "two"], "--features: 'two' is not a number"),
    (["fit", "cancer.csv", "--features", "5:1"], "--features: '5:1' is no range"),
    (["fit", "cancer.csv", "--level", "x"], "--level: 'x' is no level"),
    (["fit", "cancer.csv", "--level", "-2"], "--level: '-2' is no level: g(x) is at least 0"),
    (["fit", "cancer.csv", "--level", "nan"], "--level: 'nan' is no level"),
    (["fit", "cancer.csv", "--loss", "logistik"], "did you mean logistic?"),
    (["fit", "cancer.csv", "--loss", "squared:2"], "squared has no parameter"),
    (["fit", "cancer.csv", "--loss", "huber:x"], "'x' is not a number"),
    (["fit", "cancer.csv", "--constraint", "mcp"], "give --level, too"),
    (["fit", "cancer.csv", "--level", "1", "--constraint", "mpc"], "did you mean mcp?"),
    (["fit", "cancer.csv", "--loss", "squared", "--task", "classification"], "--loss squared is for regression"),
    (["fit", "cancer.csv", "--stream", "10", "--cv", "3"], "--stream reads the data once"),
    (["fit", "cancer.csv", "--stream", "10", "--features", "3"], "--stream is for LIBSVM"),
    (["fit", "cancer.svm", "--stream", "10"], "--stream needs --features"),
    (["fit", "cancer.csv", "--resume"], "--resume needs --checkpoint"),
    (["fit", "cancer.csv", "--restart"], "--restart needs --checkpoint"),
    (["fit", "cancer.csv", "--checkpoint", "c", "--restart", "--resume"], "give --resume or --restart, not both"),
    (["fit", "cancer.csv", "--checkpoint-every", "3"], "--checkpoint-every needs --checkpoint"),
    (["fit", "cancer.csv", "--tol", "-1"], "--tol"),
    (["fit", "cancer.csv", "--threads", "0"], "--threads"),
    (["fit", "cancer.csv", "--out", "cancer.csv", "--force"], "is an input; it is not overwritten"),
    (["fit", "cancer.csv", "--out", "m", "--report", "m"], "m is given twice"),
    (["path", "cancer.csv", "--out", "table.xlsx"], "written as .csv or .json"),
    (["frobnicate"], "No such command 'frobnicate'"),
]


@pytest.mark.parametrize(("words", "message"), USAGE, ids=[" ".join(words) for words, _ in USAGE])
def test_usage_errors_are_one_line(words, message, files, run, monkeypatch):
    monkeypatch.chdir(files)
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("levelprox: error: ") and message in err


BAD = [
    (["fit", "nowhere.csv"], 66, "nowhere.csv cannot be read: no such file or directory"),
    (["fit", "."], 66, ". is a directory"),
    (["fit", "cancer.csv", "--test", "nowhere.csv"], 66, "nowhere.csv cannot be read"),
    (["fit", "cancer.csv", "--out", "nowhere/model"], 73, "there is no directory nowhere"),
    (["fit", "cancer.csv", "--out", "new.csv"], 73, "new.csv already exists; --force replaces it"),
    (["fit", "words.csv", "--out", "new.csv"], 73, "already exists"),  # before the data, which have no target
    (["fit", "words.csv", "--report", "nowhere/page"], 73, "there is no directory nowhere"),
    (["fit", "cancer.csv", "--report", "."], 73, ". is a directory"),
    (["fit", "cancer.csv", "--checkpoint", "new.csv"], 73, "new.csv is not a checkpoint; choose another name"),
    (["fit", "cancer.csv", "--checkpoint", "new.csv", "--restart"], 73, "new.csv is not a checkpoint"),
    (["fit", "cancer.csv", "--out", "/dev/null", "--force"], 73, "not a plain file"),
    (["fit", "words.csv", "--target", "label", "--loss", "squared"], 65, "must hold numbers, not text"),
    (["fit", "words.csv", "--target", "mean radius"], 65, "column 'label' holds text, 'malignant' in row 1"),
    (["fit", "cancer.svm", "--target", "y"], 65, "a LIBSVM file has no columns by name"),
    (["fit", "words.csv", "--target", "label", "--cv", "150", "-q"], 65, "n_splits=150"),
    (["fit", "cancer.csv", "--test", "words.csv", "-q"], 65, "words.csv: which column is the target?"),
    (["predict", "cancer.csv", "new.csv"], 65, "not a file of levelprox"),
]


@pytest.mark.parametrize(("words", "code", "message"), BAD, ids=[" ".join(words) for words, _, _ in BAD])
def test_errors_in_data_and_files_are_one_line(words, code, message, files, run, monkeypatch):
    monkeypatch.chdir(files)
    found, out, err = run(*words)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert err.startswith("levelprox: error: ") and message in err
    assert not (files / "nowhere").exists()


def test_the_names_offered_are_those_there_are():
    assert LOSSES == {"classification": CLASSIFICATION_LOSSES, "regression": REGRESSION_LOSSES}
    assert tuple(NAMED_CONSTRAINTS) == CONSTRAINTS


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.array([0.0, 1.0, 1.0]), Task.CLASSIFICATION),
        (np.array(["a", "b"], object), Task.CLASSIFICATION),
        (np.array([True, False]), Task.CLASSIFICATION),
        (np.array([0.5, 1.0]), Task.REGRESSION),
        (np.arange(30.0), Task.REGRESSION),
    ],
)
def test_the_task_is_guessed_from_the_target(y, task):
    assert infer_task_from_target(y)[0] is task


def test_a_target_of_one_value_is_said_in_plain_words():
    assert infer_task_from_target(np.ones(3))[1] == "the target has the one value 1"


def test_values_without_a_json_form_are_null():
    value = {"a": np.inf, "b": [np.float32(0.5), float("nan")], "c": np.arange(2), "d": Task.REGRESSION}
    assert plain(value) == {"a": None, "b": [0.5, None], "c": [0, 1], "d": "regression"}


@pytest.mark.parametrize(
    ("said", "here"),
    [
        ("counts from 1; zero_based=True reads files", "counts from 1; --zero-based reads files"),
        ("Stopped, max_iter: 3. Raise max_iter.", "Stopped, --max-iter: 3. Raise --max-iter."),
        ("raise max_iter and time_limit", "raise --max-iter and --time-limit"),
        ("is saved; resume='/a b/c' continues.", "is saved; --resume continues."),
        ("at most n_features=3 features; n_features must", "at most --features 3 features; --features must"),
        ("or choose by criterion='cv'. bic needs", "or choose by --criterion cv. bic needs"),
        (
            "ridge=0.00125 is added; feature_weight must not be",
            "--ridge 0.00125 is added; --feature-weight must not be",
        ),
        ("or set standardize=True", "or set --standardize"),
        ("Raise max_iter or tol. sample_weight must not be", "Raise --max-iter or --tol. --weight must not be"),
        ("targets of loss='gamma' are, got level=-1", "targets of --loss gamma are, got level=-1"),
        ("use loss='logistic', multi_class='softmax'", "use --loss logistic, --multi-class softmax"),
        ("say little (cv_results_['n_unsolved']). Leave", "say little. Leave"),
        ("n_features.csv: column 'max_iter' in a/time_limit, n_features_in_",) * 2,
    ],
)
def test_messages_have_the_words_of_the_shell(said, here, capsys):
    assert in_shell_words(said) == here
    print_error(said)
    assert capsys.readouterr().err == f"levelprox: error: {here}\n"


def test_warnings_have_the_words_of_the_shell(files, run):
    code, out, err = run("fit", files / "dia.parquet", "--level", 2.5, "--max-iter", 0, "--json")
    assert code == 3 and "--max-iter" in err and "max_iter" not in err
    assert "max_iter" not in " ".join(json.loads(out)["warnings"])


def test_a_default_budget_is_reported(files, run, tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n" + "".join(f"{i % 7},{int(i % 3 > 0)}\n" for i in range(90)))
    code, out, err = run("fit", tmp_path / "a.csv", "--json")
    assert json.loads(out)["budget"] == {"n_features": 3} and code == 0
    assert "at most 3 features: one for every ten samples of the rarest class" in err
    err = run("fit", files / "dia.parquet", "--time-limit", 0)[2]
    assert "at most 10 features: one for every ten samples, at least 1 and at most 10 (--features overrides" in err
    assert "choosing from 0, 1 features" in run("fit", tmp_path / "a.csv", "--cv", 3)[2]
    assert "levelprox: 0 to 1 features" in run("path", tmp_path / "a.csv")[2]


def test_ranges_of_features():
    assert counts("3") == [3] and counts("5,1:3,0") == [0, 1, 2, 3, 5]
    assert counts("0:10:5") == [0, 5, 10]


def test_help_and_version(run):
    code, out, _ = run("--version")
    assert (code, out) == (0, f"levelprox {levelprox.__version__}\n")
    for command in ("fit", "path", "predict", "certify", "info"):
        code, out, _ = run(command, "--help")
        assert code == 0 and f"levelprox {command}" in out


def test_files_without_permission(files, run, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may do everything
    code, _, err = run("fit", files / "cancer.csv")
    assert code == 66 and "permission denied" in err
    monkeypatch.setattr("os.access", lambda path, mode: mode == 4)
    code, _, err = run("fit", files / "cancer.csv", "--out", files / "not_there")
    assert code == 73 and "permission denied" in err


def test_odd_names_of_outputs(files, run, tmp_path):
    """A link is replaced, not followed; names with newlines and bytes that are no text are names."""
    (tmp_path / "kept").write_text("mine")
    (tmp_path / "link").symlink_to("kept")
    words = ("fit", files / "dia.parquet", "--features", 1, "-q", "--out")
    assert run(*words, tmp_path / "link")[0] == 73
    assert run(*words, tmp_path / "link", "--force")[0] == 0
    assert (tmp_path / "kept").read_text() == "mine" and levelprox.load(tmp_path / "link")
    for name in ("a\nb", "\udcff", "x/../y"):
        (tmp_path / "x").mkdir(exist_ok=True)
        assert run(*words, f"{tmp_path}/{name}")[0] == 0
        assert run("info", f"{tmp_path}/{name}")[0] == 0


def test_a_class_for_every_number_is_warned_of(run, tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n" + "".join(f"{i % 3},{i // 2}\n" for i in range(50)))
    words = ("--task", "classification", "--features", 1, "--time-limit", 0, "--accept-inaccurate")
    code, _, err = run("fit", tmp_path / "a.csv", *words)
    assert code == 0 and "the target has 25 different values: each of them is a class of its own" in err


def test_warnings_are_lines_and_in_the_document(files, run):
    code, out, err = run("fit", files / "dia.parquet", "--features", "1,2", "--cv", 2, "--json")
    (warning,) = json.loads(out)["warnings"]
    assert code == 0 and f"levelprox: warning: {warning}\n" in err


@pytest.mark.parametrize("separator", ["xx", "", "\n", '"'])
def test_a_separator_is_one_character(separator, files, run):
    code, _, err = run("fit", files / "cancer.csv", "--features", 1, "--separator", separator)
    assert code == 2 and "--separator must be one character" in err
