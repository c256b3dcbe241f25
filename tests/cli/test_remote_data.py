"""The command line for out-of-core, distributed and GPU data. No connection leaves this machine."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer

from levelprox.backends.executor import Cluster
from levelprox.cli import _partitions, _remote_data, main
from levelprox.cli._partitions import parts_of
from levelprox.io.data import Reading
from levelprox.report import progress

CANCER = load_breast_cancer(as_frame=True)
LEVEL = ("--level", "2.5", "--constraint", "l1")  # one solution, and not a nearby one as well
_SERVE = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, host="127.0.0.1", protocol="tcp",
        dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False}, silence_logs=50,
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def served():
    """A process that is a whole cluster, and its address."""
    process = subprocess.Popen([sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def of_clusters():
    """Child processes except those that joblib keeps for the next call."""
    return [child for child in multiprocessing.active_children() if "Loky" not in child.name]


@pytest.fixture(scope="module")
def address():
    process, found = served()
    yield found
    process.communicate()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """cancer.csv with words and weights besides, cancer.parquet, a folder parts, cancer.svm, X.npy and y.npy."""
    folder = tmp_path_factory.mktemp("elsewhere")
    table = pl.DataFrame(CANCER.frame.to_dict("list"))
    more = {"weight": np.arange(569) % 3 + 1.0, "word": np.where(CANCER.target, "benign", "malignant")}
    table.with_columns(**{name: pl.Series(values) for name, values in more.items()}).write_csv(folder / "cancer.csv")
    table.write_parquet(folder / "cancer.parquet", row_group_size=100)
    (folder / "parts").mkdir()
    for i in range(3):
        table[i * 200 : (i + 1) * 200].write_parquet(folder / "parts" / f"{i}.parquet")
    rows = zip(CANCER.data.to_numpy().tolist(), CANCER.target.tolist(), strict=True)
    lines = (f"{2 * b - 1} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v) for row, b in rows)
    (folder / "cancer.svm").write_text("\n".join(lines) + "\n")
    np.save(folder / "X.npy", np.ascontiguousarray(CANCER.data.to_numpy()))
    np.save(folder / "y.npy", CANCER.target.to_numpy())
    return folder


@pytest.fixture
def run(capsys):
    def run(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and "distributed" not in err
        return code, out, err

    return run


@pytest.fixture
def fitted(run):
    def fitted(*words):
        code, out, err = run("fit", *words, "--json", "-q")
        assert (code, err) == (0, "")
        return json.loads(out)

    return fitted


def assert_same(found, expected, named=True):
    """The same model of as many samples; nothing is said of a score that was not computed."""
    if named:
        assert [one["name"] for one in found["features"]] == [one["name"] for one in expected["features"]]
    assert [one["index"] for one in found["features"]] == [one["index"] for one in expected["features"]]
    for one, other in zip(found["features"], expected["features"], strict=True):
        np.testing.assert_allclose(one["coefficient"], other["coefficient"], rtol=1e-6)
    np.testing.assert_allclose(found["intercept"], expected["intercept"], rtol=1e-6)
    assert found["certificate"]["psi"] == pytest.approx(expected["certificate"]["psi"], rel=1e-9)
    assert found["classes"] == expected["classes"] and found["status"] == expected["status"] == "solved"
    assert found["data"]["n_samples"] == expected["data"]["n_samples"] and "train" not in found["score"]


@pytest.mark.process
def test_a_cluster_started_for_it_gives_the_same_model_and_is_gone(files, fitted, tmp_path, run):
    words = ("--target", "word", "--drop", "target", "--weight", "weight", *LEVEL)
    out = tmp_path / "model.levelprox"
    found = fitted(files / "cancer.csv", *words, "--dask", "local:2", "--test", files / "cancer.csv", "--out", out)
    assert not of_clusters()
    expected = fitted(files / "cancer.csv", *words)
    assert_same(found, expected)
    assert found["data"]["target"] == "word" and found["classes"] == ["benign", "malignant"]
    assert found["score"]["test"] == expected["score"]["train"]
    code, text, _ = run("info", out)
    assert code == 0 and found["features"][0]["name"] in text and "fitted to" not in text
    code, text, _ = run("certify", out, files / "cancer.csv", "--target", "word", "--weight", "weight")
    assert code == 0 and text.startswith("The model has no fingerprint of the data of its fit.")


@pytest.mark.process
def test_workers_read_csv_parquet_and_chunks(files, fitted, address, run):
    expected = fitted(files / "cancer.parquet", *LEVEL)
    for name in ("cancer.parquet", "parts"):
        assert_same(fitted(files / name, *LEVEL, "--dask", address), expected)
    of_csv = ("--drop", "word", "--drop", "weight", "--target", "target")
    assert_same(fitted(files / "cancer.csv", *of_csv, *LEVEL, "--dask", address), expected)
    assert_same(fitted(files / "X.npy", "--target", files / "y.npy", *LEVEL, "--dask", address), expected, named=False)
    found = fitted(files / "cancer.svm", *LEVEL, "--dask", address)
    assert_same(found, fitted(files / "cancer.svm", *LEVEL), named=False)


@pytest.mark.process
def test_folds_on_a_cluster_and_the_chosen_budget_is_printed(files, address, run):
    levels = ("--level", "0.5,1.5", "--constraint", "l1")
    code, out, err = run("fit", files / "cancer.parquet", "--cv", 2, *levels, "--dask", address, "--json")
    assert code == 0 and json.loads(out)["chosen"]["level"] in (0.5, 1.5)
    assert "classification, because the target has the 2 values 0, 1" in err
    code, out, err = run("fit", files / "cancer.parquet", "--dask", address, "--max-iter", 0)
    assert code in (0, 3) and "at most 10 features: one for every ten samples of the rarest class" in err
    assert "loss  " in out and "accuracy" not in out


@pytest.mark.process
def test_what_is_wrong_in_a_late_part_is_an_error_in_the_data(files, address, run, tmp_path):
    lines = (files / "cancer.csv").read_text().splitlines()
    late = tmp_path / "late.csv"
    late.write_text("\n".join([*lines[:1], *(lines[1:] * 5), "x" + lines[1]]) + "\n")
    code, _, err = run("fit", late, "--target", "target", "--drop", "word", *LEVEL, "--dask", address, "-q")
    assert code == 65 and "column 'mean radius' holds text, 'x17.99'" in err and err.count("\n") == 1
    code, _, err = run("fit", files / "cancer.csv", "--target", "target", *LEVEL, "--dask", address, "-q")
    assert code == 65 and err.endswith("column 'word' holds text, 'malignant' in row 1; drop it (--drop word)\n")


def test_text_is_cut_at_lines_and_never_within_quotes(files, tmp_path):
    size = os.stat(files / "cancer.csv").st_size
    cut = parts_of(files / "cancer.csv", Reading("target", drop=("word",)), 100)
    assert len(cut.parts) == -(-size // 2**16) > 1
    read = np.vstack([part.read()[0] for part in cut.parts])
    np.testing.assert_array_equal(read[:, :30], CANCER.data)
    quoted = tmp_path / "quoted.csv"
    quoted.write_text('a,b,y\n"' + "\n" * 2**18 + '",1,2\n')
    with pytest.raises(Exception, match="within quotes"):
        parts_of(quoted, Reading(), 1).parts[0].read()


@pytest.mark.parametrize(
    ("name", "more"), [("cancer.parquet", ()), ("cancer.svm", ()), ("X.npy", ("--target", "y.npy"))]
)
def test_files_read_in_turn_give_the_same_model(files, fitted, name, more, monkeypatch):
    monkeypatch.chdir(files)
    found = fitted(name, *more, *LEVEL, "--chunked")
    assert_same(found, fitted("cancer.svm" if name == "cancer.svm" else "cancer.parquet", *LEVEL), name != "X.npy")


def test_passes_over_the_data_are_reported(files, run, monkeypatch):
    monkeypatch.setattr(progress, "_OTHER_SECONDS", 0.0)
    code, _, err = run("fit", files / "cancer.parquet", *LEVEL, "--chunked", "--verbose")
    assert code == 0 and "checking X, chunk 1 of 1\n" in err and "(full gradient pass, chunk 1 of 1)\n" in err
    _, _, err = run("fit", files / "cancer.parquet", *LEVEL, "--chunked")
    assert "chunk" not in err


@pytest.mark.torch
def test_a_device_gives_the_same_model(files, fitted):
    found = fitted(files / "cancer.parquet", *LEVEL, "--device", "cpu")
    expected = fitted(files / "cancer.parquet", *LEVEL)
    assert found["score"] == expected["score"]
    del found["score"]["train"]
    assert_same(found, expected)


@pytest.mark.parametrize(
    ("address", "exposed"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("tcp://127.8.9.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("tcp://localhost:8786", False),
        ("tls://10.0.0.7:8786", False),
        ("tcp://10.0.0.7:8786", True),
        ("tcp://0.0.0.0:8786", True),
        ("tcp://[fe80::1]:8786", True),
        ("tcp://scheduler:8786", True),
        ("tcp://localhost.example.org:8786", True),
    ],
)
def test_addresses_that_others_can_listen_to(address, exposed):
    assert _remote_data.is_exposed(address) is exposed
    assert _remote_data.local_workers(address) is None


def test_an_exposed_cluster_is_warned_of_once(files, run, monkeypatch):
    """Without a connection: the client is none."""
    asked = []

    def unreachable(address, timeout):
        asked.append(address)
        raise OSError

    monkeypatch.setattr("distributed.Client", unreachable)
    words = ("fit", files / "cancer.parquet", *LEVEL, "--dask")
    code, _, err = run(*words, "tcp://10.0.0.7:8786")
    warning, error = err.splitlines()
    assert (code, asked) == (75, ["tcp://10.0.0.7:8786"])
    assert warning.startswith("levelprox: warning: ") and warning.endswith("can run code on the cluster; use tls://")
    assert error == "levelprox: error: no scheduler answers at tcp://10.0.0.7:8786 within 5 s"
    _, _, err = run(*words, "tcp://127.0.0.1:8786")
    assert err.count("\n") == 1 and "warning" not in err


@pytest.mark.parametrize(
    "words",
    [
        *(
            ("--dask", text)
            for text in ("local", "local:0", "local:x", "127.0.0.1:8786", "tcp://127.0.0.1", "tcp://:1")
        ),
        ("--dask", "http://127.0.0.1:1"),
        ("--dask", "local:1", "--stream", "10"),
        ("--dask", "local:1", "--chunked"),
        ("--dask", "local:1", "--report", "page.html"),
        ("--chunked", "--report", "page.html"),
        ("--chunked", "--weight", "w"),
        ("--chunked", "--device", "cpu"),
    ],
)
def test_2_what_is_not_understood(files, run, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("fit", files / "cancer.parquet", *LEVEL, *words)
    assert (code, out) == (2, "") and err.startswith("levelprox: error: ") and err.count("\n") == 1


def test_2_an_extra_that_is_not_there(files, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = run("fit", files / "cancer.parquet", *LEVEL, "--dask", "local:1")
    assert code == 2 and err == "levelprox: error: --dask needs Dask: pip install 'levelprox[dask]'\n"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Dask leaves a socket behind
def test_75_no_scheduler_answers(files, run, monkeypatch):
    monkeypatch.setattr(_remote_data, "_CONNECT_SECONDS", 0.5)
    with socket.socket() as taken:  # and not listened to
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        code, _, err = run("fit", files / "cancer.parquet", *LEVEL, "--dask", f"tcp://127.0.0.1:{port}")
    gc.collect()
    assert code == 75 and f"no scheduler answers at tcp://127.0.0.1:{port}" in err and err.count("\n") == 1


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_75_the_scheduler_is_killed_in_the_middle(files, run, monkeypatch, tmp_path):
    process, address = served()
    asked, rounds = Cluster.result, []

    def struck(self, *words):
        rounds.append(time.monotonic())
        if len(rounds) == 5:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return asked(self, *words)

    monkeypatch.setattr(Cluster, "result", struck)
    out = tmp_path / "model.levelprox"
    code, text, err = run("fit", files / "cancer.parquet", *LEVEL, "--dask", address, "-q", "--out", out)
    process.communicate()
    gc.collect()
    assert code == 75 and len(rounds) >= 5 and not text and not out.exists()
    assert err.startswith("levelprox: error: ") and "scheduler" in err and err.count("\n") == 1


@pytest.mark.process
def test_a_cluster_is_closed_whatever_happens(files, run, monkeypatch):
    children = []

    def interrupted(*_):
        children.extend(of_clusters())
        raise KeyboardInterrupt

    monkeypatch.setattr(_remote_data, "cluster_data", interrupted)
    code, _, err = run("fit", files / "cancer.parquet", *LEVEL, "--dask", "local:1")
    assert (code, err, len(children)) == (130, "levelprox: interrupted\n", 1)
    assert not of_clusters()


def test_labels_of_two_kinds_are_refused():
    parts = [
        _partitions.target_summary(np.array(["a", "b"], object), None),
        _partitions.target_summary(np.array([1.0]), None),
    ]
    with pytest.raises(Exception, match="text in some rows and numbers in others"):
        _partitions.combined(parts)
