"""The benchmark suite: its judge against levelprox and SciPy, its processes under failing children, its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from benchmarks import judge, processes
from benchmarks.__main__ import main
from benchmarks.bars import bars
from benchmarks.datasets import Dataset, dataset, hand_over, taken
from benchmarks.measurements import COLUMNS, Measurements, read
from benchmarks.peers import PEERS, peer_by_name
from benchmarks.summary import summary
from levelprox import LinearModel, Problem, best_subset, certify, constraints, path, solve
from tests.support import ROOT

pytestmark = pytest.mark.process

PENALTIES = [
    (judge.Penalty("l1", 1.0), constraints.L1(1.0)),
    (judge.Penalty("mcp", 0.7, 3.0), constraints.MCP(0.7, 3.0)),
    (judge.Penalty("scad", 0.4, 3.7), constraints.SCAD(0.4, 3.7)),
]


def small(loss: str, sparse: bool, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 15)) * (rng.random((60, 15)) < 0.6)
    z = X[:, :4] @ np.array([2.0, -1.5, 1.0, 0.5]) + rng.logistic(size=60)
    return Dataset("small", scipy.sparse.csr_matrix(X) if sparse else X, np.sign(z) if loss == "logistic" else z)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("penalty", "constraint"), PENALTIES, ids=lambda value: getattr(value, "name", ""))
def test_the_judge_and_the_certificate_find_the_same_figures(loss, sparse, penalty, constraint):
    data = small(loss, sparse)
    problem = Problem(LinearModel(data.X, data.b, loss), constraint, 1.3)
    solved = solve(problem).x
    rng = np.random.default_rng(1)
    for x in (solved, solved * 0.9, np.where(rng.random(15) < 0.3, rng.uniform(-0.2, 0.2, 15), 0.0), np.zeros(15)):
        found = judge.judge(data.X, data.b, loss, x, penalty, 1.3)
        ours = certify(problem, x)
        assert found.loss == pytest.approx(ours.psi, rel=1e-12)
        assert found.g == pytest.approx(ours.g, rel=1e-12)
        assert found.nonzeros == ours.n_nonzero
        # The judge measures residuals in the units of x, certificates in those of columns.
        assert (found.kkt <= 1e-5) == (ours.kkt <= 1e-5) == (x is solved)
        if x is solved:
            assert found.multiplier == pytest.approx(ours.multiplier, rel=1e-3)


def test_a_penalised_solution_has_no_kkt_residual_at_its_own_level():
    data = small("squared", False)
    lam = 0.3

    def objective(x):
        return judge.mean_loss(data.X @ np.concatenate([x, np.zeros(11)]), data.b, "squared") + lam * np.abs(x).sum()

    found = judge.judge(data.X, data.b, "squared", np.zeros(15), judge.Penalty("l1"))
    assert found.kkt == pytest.approx(0.0, abs=1e-12)  # the origin is stationary for a multiplier that is large enough
    asked = judge.judge(data.X, data.b, "squared", np.zeros(15), judge.Penalty("l1", lam), multiplier=1.0)
    scale = np.max(np.abs(2 * data.X.T @ data.b)) / 60
    assert asked.kkt == pytest.approx((scale - lam) / scale)  # but not for the requested one
    x = np.zeros(15)
    x[:4] = scipy.optimize.minimize(objective, np.ones(4), method="Nelder-Mead", options={"xatol": 1e-9}).x
    on_four = judge.judge(data.X[:, :4], data.b, "squared", x[:4], judge.Penalty("l1"))
    assert on_four.kkt < 1e-4
    assert on_four.multiplier == pytest.approx(lam, rel=1e-2)
    fixed = judge.judge(data.X[:, :4], data.b, "squared", x[:4], judge.Penalty("l1", lam), multiplier=1.0)
    assert on_four.kkt <= fixed.kkt < 1e-4


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_refit_is_the_least_loss_of_the_support(loss, sparse):
    data = small(loss, sparse, seed=2)
    support = np.array([0, 1, 7])
    columns = small(loss, False, seed=2).X[:, support]

    def value(x):
        return judge.mean_loss(columns @ x[:3] + x[3], data.b, loss)

    best = scipy.optimize.minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).fun
    assert judge.refit(data.X, data.b, loss, support) == pytest.approx(best, rel=1e-8)


def test_separated_data_have_no_loss_left_and_repeated_columns_do_not_matter():
    b = np.array([-1.0, -1, -1, 1, 1, 1])
    X = np.column_stack([b * 3, b * 3, np.arange(6.0), np.zeros(6)])
    assert judge.refit(X, b, "logistic", np.array([0, 1])) == 0.0
    assert judge.refit(X, b, "logistic", np.array([3])) == pytest.approx(np.log(2))
    assert judge.refit(X, b, "logistic", np.array([], dtype=int)) == pytest.approx(np.log(2))


def test_the_judge_refuses_what_is_not_a_fit():
    data = small("logistic", False)
    for x in (np.zeros(3), np.full(15, np.nan)):
        with pytest.raises(ValueError, match="finite"):
            judge.judge(data.X, data.b, "logistic", x, judge.Penalty("l1"))


@pytest.mark.parametrize("sparse", [False, True])
def test_data_arrive_as_they_were_sent(sparse, tmp_path):
    data = small("logistic", sparse)
    for by_columns in (False, True):
        got = taken(hand_over(data, tmp_path), by_columns)
        assert (got.X != data.X).sum() == 0
        assert np.array_equal(got.b, data.b) and got.loss == "logistic"
        if sparse:
            assert got.X.format == ("csc" if by_columns else "csr")


def child(tmp_path: Path, code: str) -> list[str]:
    """A command that runs some code instead of a competitor; `folder` is where it is expected to answer."""
    file = tmp_path / "child.py"
    answer = """
import sys, os, json, time, pathlib
folder = pathlib.Path(sys.argv[-1])
def answer(index, text):
    (folder / "aside").write_text(text)
    (folder / "aside").rename(folder / f"answer-{index}.json")
"""
    file.write_text(answer + code)
    return [sys.executable, str(file)]


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_hanging_child_is_killed_with_its_children_and_counts_as_its_limit(tmp_path):
    code = f"""
import subprocess
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({str(tmp_path / "pids")!r}).write_text(f"{{os.getpid()}} {{sleeper.pid}}")
(folder / "ready").touch()
time.sleep(60)
"""
    began = time.monotonic()
    (answer,) = processes.run("any", tmp_path, [{}], limit=0.3, command=child(tmp_path, code))
    assert answer.status == "timeout" and answer.seconds == [0.3]
    assert time.monotonic() - began < 50  # not the 60 s of the child, on a loaded machine either
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: all(map(ended, pids)))


def test_a_run_that_is_left_early_leaves_nothing_behind(tmp_path):
    code = """
answer(0, json.dumps({"status": "refused", "note": str(os.getpid())}))
time.sleep(60)
"""
    stream = processes.run("any", tmp_path, [{}, {}], limit=20, command=child(tmp_path, code))
    pid = int(next(stream).note)
    assert not ended(pid)
    stream.close()
    assert ended(pid)


def test_a_run_that_is_ended_from_outside_leaves_nothing_behind(tmp_path):
    file, pid_file = tmp_path / "run.py", str(tmp_path / "pid")
    sleeper = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(60)"
    file.write_text(f"""
import runpy, sys
from benchmarks import processes, tables
def measure(session, name):
    list(processes.run("any", session.folder, [{{}}], 50, command=[sys.executable, "-c", {sleeper!r}, {pid_file!r}]))
tables.TABLES["sleep"] = tables.Table(measure, ("any",), ("any",), ("any",))
sys.argv = ["benchmarks", "--only", "sleep", "--out", {str(tmp_path)!r}]
runpy.run_module("benchmarks", run_name="__main__")
""")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen([sys.executable, str(file)], env=environment, stderr=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    assert not ended(pid)
    run.terminate()
    run.wait()
    wait_until(lambda: ended(pid))


def test_a_crash_is_an_error_of_the_fit_it_came_in_and_the_others_are_asked_again(tmp_path):
    code = """
asked = json.loads((folder / "request.json").read_text())["fits"]
for index, ask in enumerate(asked):
    if ask["crash"]:
        print("out of luck", flush=True)
        os.kill(os.getpid(), 9)
    answer(index, json.dumps({"status": "refused", "note": "no"}))
"""
    fits = [{"crash": False}, {"crash": True}, {"crash": False}]
    answers = list(processes.run("any", tmp_path, fits, limit=20, command=child(tmp_path, code)))
    assert [answer.status for answer in answers] == ["refused", "error", "refused"]
    assert "-9" in answers[1].note and "out of luck" in answers[1].note


def test_what_starts_from_a_failed_fit_is_not_asked(tmp_path):
    fits = [{}, {"warm_start": True}, {"warm_start": True}]
    answers = list(processes.run("any", tmp_path, fits, limit=20, command=child(tmp_path, "sys.exit(3)")))
    assert [answer.status for answer in answers] == ["error"] * 3
    assert "no start" in answers[2].note


@pytest.mark.parametrize(
    "rubbish",
    ["not JSON", "[]", '{"seconds": 1}', '{"status": "ok", "seconds": ["many"]}', '{"status": "ok", "seconds": [1.0]}'],
)
def test_rubbish_is_an_error_and_not_a_crash(rubbish, tmp_path):
    code = f"(folder / 'answer-0.npy').write_bytes(b'rubbish'); answer(0, {rubbish!r})"
    (answer,) = processes.run("any", tmp_path, [{}], limit=20, command=child(tmp_path, code))
    assert answer.status == "error" and answer.coefficients is None


def test_everyone_runs_on_one_thread(tmp_path):
    code = """
told = {"status": "refused", "note": os.environ["OMP_NUM_THREADS"] + os.environ["NUMBA_NUM_THREADS"]}
answer(0, json.dumps(told))
"""
    (answer,) = processes.run("any", tmp_path, [{}], limit=20, command=child(tmp_path, code))
    assert answer.note == "11"


def made_up() -> list[dict[str, object]]:
    def row(table, data, case, peer, status="ok", **figures):
        empty = dict.fromkeys(COLUMNS, "")
        own = {"table": table, "data": data, "case": case, "peer": peer, "status": status, "kind": "sparse logistic"}
        return {**empty, **own, **figures}

    subset, abess = "levelprox best_subset", "abess k"
    return [
        row("at most k", "good", "k=5", subset, loss=0.1, nonzeros=5.0, seconds=0.01),
        row("at most k", "good", "k=5", abess, loss=0.2, nonzeros=5.0, seconds=1.0),
        row("at most k", "bad", "k=5", subset, loss=0.3, nonzeros=5.0, seconds=2.0),
        row("at most k", "bad", "k=5", abess, loss=0.2, nonzeros=5.0, seconds=1.0),
        row("at most k", "slow", "k=5", subset, loss=0.3, nonzeros=5.0, seconds=2.0),
        row("at most k", "slow", "k=5", abess, "timeout", seconds=300.0, note="killed after 300 s"),
        row("at most k", "failed", "k=5", subset, "error", note="fell over"),
        row("at most k", "failed", "k=5", abess, loss=0.2, nonzeros=5.0, seconds=1.0),
        row("at most k", "alone", "k=5", subset, loss=0.3, nonzeros=5.0, seconds=2.0),
        row("at most k", "alone", "k=5", abess, "not installed"),
    ]


def test_bars_count_misses_failures_and_timeouts(tmp_path):
    found = {bar.claim: bar for bar in bars(made_up())}
    loss = found["loss at equal k, over abess k: relative excess"]
    assert len(loss.cases) == 3  # good, bad, failed: a timeout and an absence have no loss
    assert sorted(case.label.split()[0] for case in loss.missed) == ["bad", "failed"]
    assert loss.value == pytest.approx(0.5) and loss.verdict == "missed"
    seconds = found["time at equal k, over abess"]
    assert len(seconds.cases) == 4  # the timeout counts as its limit
    assert sorted(case.label.split()[0] for case in seconds.missed) == ["bad", "failed"]
    assert loss.on("good").verdict == "met" and loss.on("bad").verdict == "missed"
    assert found["cold start, direct over skglm"].verdict == "not measured"


def test_bars_on_paths_of_k():
    def row(case, peer, **figures):
        return {**dict.fromkeys(COLUMNS, ""), "table": "k path", "data": "made", "case": case, "peer": peer} | {
            "status": "ok",
            **figures,
        }

    path, single = "levelprox subset_path", "levelprox best_subset"
    rows = [
        row("1..10", path, loss=0.1, seconds=0.7),
        row("1..10 k=5", path, loss=0.21),
        row("1..10 k=10", path, loss=0.1),
        row("1..10 k=5", single, loss=0.2, seconds=0.3),
        row("1..10 k=10", single, loss=0.1, seconds=0.1),
        row("1..10", "l0learn", loss=0.1, seconds=0.1),
        row("1..10 k=5", "l0learn", loss=0.3),
    ]
    found = {bar.claim: bar for bar in bars(rows)}
    assert found["time of the best subsets of 1..k, in single fits"].value == pytest.approx(7)
    assert found["time of the best subsets of 1..k, in single fits"].verdict == "missed"
    assert found["time of the best subsets of 1..k, over l0learn"].value == pytest.approx(7)
    assert found["loss on the path of k, over single fits: relative excess"].verdict == "missed"
    assert found["loss on the path of k, over l0learn: relative excess"].verdict == "met"
    assert found["time of the best subsets of 1..k, over abess path"].verdict == "not measured"


def test_rows_survive_the_file_and_the_summary_says_all(tmp_path):
    path = tmp_path / "rows.csv"
    kept = Measurements(path)
    for row in made_up():
        kept.add(row)
    with path.open("a") as file:
        file.write("at most k,cut,off")  # a run that was killed while it wrote
    assert read(path) == made_up()
    text = summary(read(path))
    for words in (
        "bad k=5 (abess k): 0.3 against 0.2",
        "failed k=5: error",
        "> 300",
        "killed after 300 s",
        "fell over",
    ):
        assert words in text
    again = Measurements(path, resume=True)
    assert again.get("at most k", "slow", "k=5", "abess k") is not None
    assert again.get("at most k", "failed", "k=5", "levelprox best_subset") is None  # it gets another chance


def test_an_empty_run_has_a_summary():
    assert "not measured" in summary([])


def test_every_competitor_has_a_file():
    for name in PEERS:
        assert peer_by_name(name).package


def test_a_quick_run_from_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("LEVELPROX_DATA", raising=False)
    absent = "abess k,abess 1..k,abess path,l0learn,l0learn swaps,skscope,skglm cut to k,skglm,celer,adelie"
    run = [
        "--quick",
        "--only",
        "at most k,k path,l1",
        "--data",
        "generated-tiny",
        "--out",
        str(tmp_path),
        "--without",
        absent,
    ]
    main(run)
    rows = read(tmp_path / "measurements.csv")
    assert {row["peer"] for row in rows} >= {"levelprox best_subset", "levelprox direct", "omp", "liblinear"}
    direct = [row for row in rows if row["table"] == "l1" and row["peer"] == "levelprox direct"]
    assert direct and all(row["status"] == "ok" and row["kkt"] <= 2e-6 for row in direct)
    assert all(row["seconds"] > 0 for row in rows if row["status"] == "ok" and not row["case"].startswith("1..10 k="))
    path = {row["case"]: row for row in rows if row["peer"] == "levelprox subset_path"}
    single = {row["case"]: row for row in rows if row["table"] == "k path" and row["peer"] == "levelprox best_subset"}
    assert list(path) == ["1..10 k=5", "1..10 k=10", "1..10"] and set(single) == {"1..10 k=5", "1..10 k=10"}
    assert all(path[case]["loss"] <= row["loss"] * (1 + 1e-3) for case, row in single.items())
    assert "ℓ1 constraint over liblinear" in (tmp_path / "summary.md").read_text()
    capsys.readouterr()
    failed = sorted({row["peer"] for row in rows if row["status"] == "error"})
    main([*run[:-1], ",".join([absent, *failed]), "--resume"])
    assert "seconds=" not in capsys.readouterr().out  # everything is there
    assert read(tmp_path / "measurements.csv") == [row for row in rows if row["status"] != "error"]


def test_an_absent_competitor_is_a_row(tmp_path):
    if any(Path(place, "abess").exists() for place in sys.path):
        pytest.skip("abess is installed")
    place = hand_over(dataset("generated-tiny"), tmp_path)
    (answer,) = processes.run("abess k", place, [{"k": 2, "intercept": True}], limit=20)
    assert answer.status == "not installed" and "abess" in answer.note


def test_the_environment_is_left_alone():
    assert "LEVELPROX_BENCH_BEGAN" not in os.environ


@pytest.mark.parametrize(
    ("name", "k", "start", "passes", "steps"),
    [
        ("generated-dense", 10, "direct", 3, 9),
        ("generated-squared", 10, "direct", 3, 6),
        ("generated-sparse", 20, "direct", 3, 15),
        ("generated-dense", 10, "continuation", 8, 30),
        ("generated-squared", 10, "continuation", 8, 9),
        ("generated-sparse", 20, "continuation", 9, 45),
    ],
)
def test_the_engine_needs_no_more_passes_than_it_did(name, k, start, passes, steps):
    """Counts do not depend on the machine: where one rises, a change has made fits slower."""
    data = dataset(name)
    problem = Problem(LinearModel(data.X, data.b, data.loss), constraints.MCP.from_threshold(0.5), k + 0.5)
    result = solve(problem, start=start)
    assert result.n_grad <= passes
    assert result.n_inner <= steps


@pytest.mark.parametrize(
    ("name", "k", "passes"), [("generated-tiny", 3, 73), ("generated-dense", 3, 111), ("generated-squared", 10, 57)]
)
def test_at_most_k_features_need_no_more_passes_than_they_did(name, k, passes):
    data = dataset(name)
    assert best_subset(LinearModel(data.X, data.b, data.loss, fit_intercept=True), k).n_grad <= passes


@pytest.mark.parametrize(
    ("name", "passes"), [("generated-dense", 69), ("generated-squared", 57), ("generated-sparse", 111)]
)
def test_a_path_needs_no_more_passes_than_it_did(name, passes):
    data = dataset(name)
    problem = Problem(LinearModel(data.X, data.b, data.loss), constraints.MCP.from_threshold(2.0), 10.3)
    assert path(problem, 1.3 + 0.5 * np.arange(19)).n_grad <= passes


def test_records_are_generated_and_fitted(tmp_path):
    options = ["--share", "0.001", "--codes", "300", "--per-person", "12", "--features", "3", "--threads", "1"]
    command = [sys.executable, "-m", "benchmarks.records", *options, "--out", str(tmp_path / "records.json")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not run.stderr, run.stderr
    assert (run.returncode == 1) == ("missed" in run.stdout)  # bars are of the full size
    row = json.loads((tmp_path / "records.json").read_text())
    assert len(row["features"]) <= 3 and row["passes"] > 0 and row["bytes"] > 0 and row["entries"] > 5000
