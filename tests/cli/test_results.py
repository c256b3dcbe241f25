"""The command line keeps the result of a fit, also if a later step fails or is interrupted."""

from __future__ import annotations

import errno
import importlib
import json

import numpy as np
import polars as pl
import pytest

import levelprox
from levelprox import SparseRegressor, SparseRegressorCV
from levelprox.cli import main

PAGE = importlib.import_module("levelprox.report.page")  # the name is that of its function, too


@pytest.fixture
def data(tmp_path):
    """a.csv: three features, weights, and a target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "w": np.arange(40) % 3 + 1.0, "y": X @ [3, 2, 1.0]})
    frame.write_csv(tmp_path / "a.csv")
    return tmp_path / "a.csv"


@pytest.fixture
def run(capsys):
    """Run a command: its exit code, what it printed, and what it said."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*_, **__):
    raise KeyboardInterrupt("Interrupted")


def test_a_full_disk_loses_no_result(data, run, monkeypatch, tmp_path):
    words = ("fit", data, "--features", 1, "--json", "--report", tmp_path / "page.html", "--out", tmp_path / "model")
    monkeypatch.setattr("levelprox.io.atomic.write", full_disk)
    code, out, err = run(*words)
    assert code == 74 and json.loads(out)["features"][0]["name"] == "a" and json.loads(out)["outputs"] == {}
    assert f"{tmp_path / 'model'} cannot be written" in err and f"{tmp_path / 'page.html'} cannot be written" in err
    code, out, _ = run("path", data, "--features", "1:2", "--json", "--out", tmp_path / "p.csv")
    assert code == 74 and len(json.loads(out)["path"]) == 2


def test_a_failing_page_leaves_model_and_result(data, run, monkeypatch, tmp_path):
    words = ("fit", data, "--features", 1, "--json", "--report", tmp_path / "page.html", "--out", tmp_path / "model")
    monkeypatch.setattr(PAGE, "page", interrupted)
    code, out, err = run(*words)
    assert code == 130 and list(json.loads(out)["outputs"]) == ["model"] and levelprox.load(tmp_path / "model")
    assert "fitting 2 budgets for the page (--time-limit is for each fit)" in err
    assert "levelprox: the page was not written\n" in err and not (tmp_path / "page.html").exists()


def test_ctrl_c_while_scoring_keeps_the_model(data, run, monkeypatch, tmp_path):
    monkeypatch.setattr(SparseRegressor, "score", interrupted)
    code, out, _ = run("fit", data, "--features", 1, "--json", "--out", tmp_path / "model")
    assert code == 130 and list(json.loads(out)["score"]) == ["name"] and levelprox.load(tmp_path / "model")


def test_a_stream_is_not_lost_to_a_bad_test_file(run, tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1 2:3\n0 1:2\n1 2:5\n0 1:1 2:1\n")
    (tmp_path / "bad.svm").write_text("1 7:1\n")
    words = ("fit", tmp_path / "a.svm", "--stream", 2, "--features", 1, "--json", "--test", tmp_path / "bad.svm")
    code, out, err = run(*words, "--out", tmp_path / "model")
    assert code == 65 and "bad.svm" in err
    assert list(json.loads(out)["outputs"]) == ["model"] and levelprox.load(tmp_path / "model")


def test_ctrl_c_on_a_path_keeps_the_finished_rows(data, run, monkeypatch, tmp_path):
    whole = SparseRegressor.fit

    def fit(self, *args):
        return whole(self, *args) if self.n_features < 2 else interrupted()

    monkeypatch.setattr(SparseRegressor, "fit", fit)
    words = ("path", data, "--features", "0:3", "--json", "--report", tmp_path / "page.html")
    code, out, err = run(*words, "--out", tmp_path / "p.json")
    assert code == 130 and [row["n_features"] for row in json.loads(out)["path"]] == [0, 1]
    assert json.loads((tmp_path / "p.json").read_text()) == json.loads(out)["path"]
    assert "the page was not written" in err and not (tmp_path / "page.html").exists()


def test_ctrl_c_before_there_is_a_model_is_a_document_that_says_so(data, run, monkeypatch):
    monkeypatch.setattr(SparseRegressorCV, "_search", interrupted)
    code, out, _ = run("fit", data, "--cv", 3, "--json")
    assert code == 130 and json.loads(out)["status"] == "interrupted" and json.loads(out)["model"] is None


@pytest.mark.parametrize("command", ["fit", "path"])
def test_the_page_uses_the_weights_of_test_data(command, data, run, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(PAGE, "page", lambda *_, test, **__: told.append(test) or "page")
    words = (command, data, "--features", 1, "-q", "--test", data, "--force", "--report", tmp_path / "page.html")
    assert run(*words, "--weight", "w")[0] == 0 and run(*words)[0] == 0
    assert told[0][2].tolist() == pl.read_csv(data)["w"].to_list() and len(told[1]) == 2


def test_the_loss_is_printed_once(data, run):
    code, out, _ = run("fit", data, "--features", 1)
    assert code == 0
    assert sum(line.startswith("loss") for line in out.splitlines()) == 1 and "ψ" not in out
