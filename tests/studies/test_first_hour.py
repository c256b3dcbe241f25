"""benchmarks/first_hour.py: its verdicts on made-up rows, and a quick run from end to end."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.first_hour import DEFAULT, ONE, main, report, verdicts, within_one_error
from benchmarks.first_hour_models import (
    ABESS,
    ABESS_GRID,
    MODELS,
    OURS,
    OURS_CV,
    QUICK,
    SETS,
    Data,
    data,
    features,
    losses,
    small,
)


def row(set_name: str, model: str, score: float | None = -0.1, count: int = 3, **others: Any) -> dict[str, Any]:
    figures = {"loss": None if score is None else -score, "score": score, "standard_error": 0.05, "features": count}
    told = {"status": "ok", "solved": "solved" if model in (OURS, OURS_CV) else "", "message": "", "accuracy": 0.9}
    times = {"cpu_seconds": 1.0, "seconds": 2.0, "warnings": [], "load_average": 0.0, "busy_processes": 0}
    about = {"set": set_name, "task": "binary", "source": "made up", "n": 10, "d": 5, "model": model, "threads": ONE}
    return {**about, **figures, **told, **times, **others}


def judged(rows: list[dict[str, Any]], goal: str) -> dict[str, Any]:
    return next(one for one in verdicts(rows) if one["goal"].startswith(goal))


def test_twelve_sets_of_every_kind():
    assert len(SETS) == 12 and set(QUICK) <= set(SETS)
    assert {task for task, *_ in SETS.values()} == {"binary", "classes", "regression", "counts"}


@pytest.mark.parametrize("name", SETS)
def test_every_set_can_be_had_without_a_folder_and_is_split_the_same_way(name, monkeypatch):
    monkeypatch.delenv("LEVELPROX_DATA", raising=False)
    one = data(name)
    assert one.source in ("scikit-learn", "generated", "substitute")
    X, X_test, y, y_test = one.split()
    assert X.shape[0] == y.size and X_test.shape[0] == y_test.size
    assert y_test.size == pytest.approx(0.3 * one.y.size, abs=1)
    assert np.array_equal(one.split()[3], y_test)
    if one.task in ("binary", "classes"):
        assert np.array_equal(np.unique(y), np.arange(one.y.max() + 1)) and set(y_test) == set(y)


def test_the_best_peer_and_those_within_its_standard_error():
    rows = [row("a", "x", -0.10), row("a", "y", -0.14), row("a", "z", -0.16), row("a", "w", None)]
    best, near = within_one_error(rows) or (None, [])
    assert best is rows[0] and near == rows[:2]
    assert within_one_error(rows[3:]) is None


def test_score_and_features_are_both_judged():
    lasso = "LogisticRegressionCV l1"
    rows = [
        *(row("good", name) for name in (OURS_CV, ABESS)),
        row("worse", OURS_CV, -0.2),
        row("worse", ABESS),
        row("larger", OURS_CV, count=4),
        row("larger", ABESS),  # the sparsest within one standard error, though not the best
        row("larger", lasso, -0.06, 30),
        row("far", OURS_CV, count=20),
        row("far", ABESS, -0.3, 2),  # sparser, but its score is not good enough to count
        row("far", lasso, -0.1, 30),
        row("failed", OURS_CV, None, status="timeout", solved="", note="killed"),
        row("failed", ABESS),
    ]
    found = judged(rows, "score and features, levelprox CV")
    assert found["found"] == "2 of 5" and found["met"] is False
    assert [line.split(":")[0] for line in found["missed"]] == ["worse", "larger", "failed"]
    assert "4 features against 3 of abess CV" in found["missed"][1]


def test_statuses_and_warnings_of_all_default_fits_count():
    said = [{"kind": "UserWarning", "text": "beware", "count": 2}]
    rows = [
        row("a", OURS),
        row("a", OURS, threads=DEFAULT, warnings=said),
        row("a", OURS_CV, solved="time_limit", message="stopped"),
        row("b", OURS, status="error", note="fell over", solved=""),
        row("a", ABESS, warnings=said),  # theirs are printed, and not evaluated
    ]
    assert judged(rows, "default fits are solved")["found"] == "2 of 4"
    warned = judged(rows, "default fits without a warning")
    assert warned["found"] == "2 of 4"  # whether a fit without an answer warns is not known
    assert warned["missed"] == [
        "a, levelprox, threads default: 2 × UserWarning: beware",
        "b, levelprox, threads 1: not known, error",
    ]
    text = report({"machine": {"cores": 1, "busy_processes": 0, "versions": {}}, "rows": rows, "verdicts": [warned]})
    assert "abess CV, threads 1: 2 × UserWarning" in text and "error: fell over" in text and "missed" in text


def test_times_are_compared_with_abess_and_with_limits():
    rows = [
        row("a", OURS, cpu_seconds=2.9),
        row("a", OURS_CV, cpu_seconds=3.1),
        row("a", ABESS),
        row("b", OURS, cpu_seconds=31.0),
        row("b", ABESS, status="timeout", seconds=300.0),
        row("c", OURS, cpu_seconds=5.0, task="classes"),
        row("d", OURS, cpu_seconds=1.0),  # nothing to compare with
        row("e", OURS, cpu_seconds=4.0),
        row("e", ABESS, cpu_seconds=8.0),
        row("e", ABESS_GRID),  # the faster of the two counts
    ]
    del rows[4]["cpu_seconds"]
    found = judged(rows, "at most 3")
    assert found["found"] == "2 of 5"
    assert [line.split(":")[0] for line in found["missed"]] == ["a, levelprox CV", "c, levelprox", "e, levelprox"]
    assert judged(rows, "never more")["missed"] == ["b, levelprox, threads 1: 31.00 s"]
    assert judged([], "at most 3")["met"] is None


@pytest.mark.parametrize("task", ["binary", "classes", "regression", "counts"])
def test_losses_of_samples_and_features_are_those_of_the_model(task):
    X, y = small(task, False)
    model = MODELS[OURS].make(task, X, y).fit(X, y)
    held_out = losses(task, model, X, y)
    assert held_out.shape == y.shape and np.all(held_out >= 0)
    assert features(model, 6) == model.selected_features_.size
    if task in ("binary", "classes"):
        from sklearn.metrics import log_loss

        assert held_out.mean() == pytest.approx(log_loss(y, model.predict_proba(X)))
    if task == "counts":
        from sklearn.metrics import mean_poisson_deviance

        assert held_out.mean() == pytest.approx(mean_poisson_deviance(y, model.predict(X)))


def test_coefficients_by_feature_are_counted_as_those_by_class():
    class By:
        def __init__(self, coef):
            self.coef_ = coef

    coefficients = np.zeros((3, 5))
    coefficients[:, [1, 4]] = 1.0
    assert features(By(coefficients), 5) == features(By(coefficients.T), 5) == features(By(coefficients[0]), 5) == 2


def test_a_data_set_knows_its_classes():
    one = Data("made up", "classes", "here", np.zeros((20, 1)), np.repeat([0, 1], 10))
    assert np.bincount(one.split()[2]).tolist() == [7, 7]


@pytest.mark.timeout(900)  # seven processes, a minute of processor time in all
def test_a_quick_run_from_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("LEVELPROX_DATA", raising=False)
    path = tmp_path / "first_hour.json"
    run = ["--quick", "--models", f"{OURS},{OURS_CV},LassoCV", "--out", str(path), "--limit", "400", "--no-first-use"]
    main([*run, "--load", "1"])
    text = capsys.readouterr().out
    whole = json.loads(path.read_text())
    rows = whole["rows"]
    assert {(one["set"], one["model"]) for one in rows if one["model"] != "LassoCV"} == {
        (name, model) for name in QUICK for model in (OURS, OURS_CV)
    }
    assert all(one["status"] == "ok" for one in rows), text
    assert all(one["solved"] == "solved" and not one["warnings"] for one in rows if one["model"] != "LassoCV"), text
    assert all(one["cpu_seconds"] > 0 and one["standard_error"] > 0 for one in rows)
    for words in (
        "breast_cancer: binary, 569 x 30, scikit-learn",
        "default fits are solved",
        "6 of 6",
        "1 busy processes",
    ):
        assert words in text
    main([*run, "--load", "1", "--resume"])  # everything is there
    assert json.loads(path.read_text())["rows"] == rows
    main(["--report", "--out", str(path)])
    assert "default fits are solved" in capsys.readouterr().out


def test_an_unknown_set_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--sets", "unknown"])
    assert "there are breast_cancer" in capsys.readouterr().err
