"""The corpus records the same twice, and reports what differs; the walk counts files of the package."""

from __future__ import annotations

import copy
import json
import re
from types import CodeType

import numpy as np
import pytest

from experiments import walk
from experiments.corpus import compare, describe
from experiments.corpus.__main__ import main
from experiments.corpus.case import case
from experiments.corpus.record import all_cases, recorded, recording
from levelprox import LinearModel, Problem, SparseRegressorCV, constraints, solve
from tests.fixtures.make import HERE

# A case of every kind of value: a Result, a Subset, a Path, a model, an error, a warning, files and old files.
QUICK = (
    "^(solve/squared/l1|subset/squared/k|path/squared/mcp|classifier/logistic/k|project/tilted|solve-mistakes/gamma"
    "|limits/solve/squared/max_iter 1|model-file/regressor level|checkpoint/file|old-model/v1/regressor_cv"
    "|old-checkpoint/v1/solve svrg)$"
)


@pytest.fixture(scope="module")
def quick():
    return recording(QUICK)


def without_seconds(found):
    """Drop the seconds of a recording, of the whole and of its cases."""
    cases = {name: {k: v for k, v in entry.items() if k != "seconds"} for name, entry in found["cases"].items()}
    return {**found, "seconds": None, "cases": cases}


def test_two_recordings_are_the_same_but_for_seconds(quick):
    assert len(quick["cases"]) == QUICK.count("|") + 1
    again = recording(QUICK)
    assert json.dumps(without_seconds(again)) == json.dumps(without_seconds(quick))
    found = compare.compared(quick, again)
    assert found.same and found.counts["identical"] == len(quick["cases"])


def test_an_entry_has_answer_counts_and_warnings(quick):
    entry = quick["cases"]["limits/solve/squared/max_iter 1"]
    assert entry["status"] == "max_iter" and entry["counts"]["n_outer"] == 1 and entry["error"] is None
    assert entry["warnings"] == [f"ConvergenceWarning: {entry['message']}"]
    mistake = quick["cases"]["solve-mistakes/gamma"]
    assert mistake["error"] == "InvalidInputError: gamma must be in (0, inf), got -1.0"
    values = [float.fromhex(value) for _, value in quick["cases"]["project/tilted"]["x"]["entries"]]
    assert 0 < len(values) <= 30 and np.all(np.isfinite(values))


def test_the_values_of_an_entry_are_those_of_the_result():
    X = np.random.default_rng(0).standard_normal((30, 5))
    fit = solve(Problem(LinearModel(X, X[:, 1] - X[:, 2]), constraints.L1(), 1.0))
    entry = describe.described(fit)
    x = np.zeros(5)
    for j, value in entry["x"]["entries"]:
        x[j] = float.fromhex(value)
    np.testing.assert_array_equal(x, fit.x)
    assert float.fromhex(entry["loss"]) == fit.psi and entry["counts"]["n_grad"] == fit.n_grad


CHANGED = "solve/squared/l1"


@pytest.mark.parametrize(("factor", "group"), [(1 + 1e-12, "same to 1e-09"), (1.001, "different")])
def test_a_changed_coefficient_is_reported(quick, factor, group):
    other = copy.deepcopy(quick)
    entries = other["cases"][CHANGED]["x"]["entries"]
    j, value = entries[0]
    entries[0] = [j, (factor * float.fromhex(value)).hex()]
    other["cases"][CHANGED]["x"]["sha256"] = "another"
    found = compare.compared(quick, other)
    assert not found.same and found.group(CHANGED) == group and found.counts[group] == 1
    row = next(line for line in compare.report(found).splitlines() if line.startswith(CHANGED))
    assert f"x[{j}]" in row and repr(float.fromhex(value)) in row


def test_other_words_a_higher_loss_and_missing_cases_are_reported(quick):
    other = copy.deepcopy(quick)
    entry, text = other["cases"][CHANGED], other["cases"]["classifier/logistic/k"]
    entry["loss"] = (2 * float.fromhex(entry["loss"])).hex()
    text["message"] = "Done."
    del other["cases"]["project/tilted"]
    other["cases"]["more"] = {}
    found = compare.compared(quick, other)
    assert (found.counts["different"], found.counts["texts differ"]) == (1, 1)
    assert (found.missing, found.new) == (["project/tilted"], ["more"]) and found.loss_ratios[CHANGED] == 2.0
    report = compare.report(found)
    assert "largest loss after/before: 2" in report and "missing: project/tilted" in report
    assert compare.compared(quick, other, ["message"]).counts["texts differ"] == 0


def test_an_array_of_another_type_or_with_unrecorded_entries_is_different():
    long = {"sha256": "a", "shape": [90], "n_nonzero": 90, "entries": [[j, (1.0).hex()] for j in range(50)]}
    for after in ({**long, "sha256": "b"}, {**long, "sha256": "b", "shape": [91]}):
        found = compare.compared({"cases": {"one": {"x": long}}}, {"cases": {"one": {"x": after}}})
        assert found.counts["different"] == 1


def test_compare_exits_with_1_where_recordings_differ(quick, tmp_path, capsys):
    for name, changed in (("a", quick), ("b", {**quick, "cases": {}})):
        (tmp_path / f"{name}.json").write_text(json.dumps(changed))
    a, b = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    assert main(["compare", a, a]) == 0 and main(["compare", a, b]) == 1
    assert f"{len(quick['cases']):5}  missing" in capsys.readouterr().out


def test_record_writes_the_chosen_cases(tmp_path, capsys):
    assert main(["record", str(tmp_path / "a.json"), "--only", "^project/"]) == 0
    found = json.loads((tmp_path / "a.json").read_text())
    assert set(found["cases"]) == {name for name in all_cases() if name.startswith("project/")}
    assert re.search(r"6 cases, 0 with an error, 0 skipped", capsys.readouterr().out)


def test_times_addresses_and_folders_are_masked(tmp_path):
    text = f'{tmp_path}/a took 1.25 s, 3 seconds, {{"seconds": 0.25}}, <f at 0x7fa91d2b> of 5 samples'
    assert describe.masked(text, tmp_path) == 'DIR/a took TIME, TIME, {"seconds": TIME}, <f at 0x> of 5 samples'


def test_a_case_that_raises_is_recorded():
    def fails() -> None:
        raise ValueError("no")

    assert recorded(case("fails", fails))["error"] == "ValueError: no"


def test_every_file_of_version_1_is_a_case():
    names = set(all_cases())
    models = [f"old-model/v1/{path.stem}" for path in (HERE / "v1").glob("*.levelprox")]
    states = [f"old-checkpoint/v1/{path.stem.replace('_', ' ')}" for path in (HERE / "v1").glob("*.state")]
    assert len(models) == 13 and len(states) == 16 and names.issuperset(models + states)


def test_the_walk_counts_files_functions_and_depth():
    fit = walk.fits()["solve(Problem(LinearModel, MCP, 2.5))"]
    found = walk.trace(fit)
    assert {"solve.py", "_solve.py"} & set(found.files) and "constraints/clipped.py" in found.files
    assert len(found.files) < found.n_functions < sum(found.calls.values()) and 5 < found.depth < 60
    assert all(isinstance(code, CodeType) for code in found.calls)
    assert not walk.trace(lambda: sorted([2, 1])).files


def test_the_hash_of_a_model_file_leaves_out_times_alone(tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 5))
    hashes = []
    for i, target in enumerate((X[:, 1], X[:, 1], X[:, 1] + 1e-9 * X[:, 2])):
        model = SparseRegressorCV(n_features=[1, 2], cv=2).fit(X, target)
        model.save(tmp_path / str(i))
        hashes.append(describe.file_hash(tmp_path / str(i)))
    assert hashes[0] == hashes[1] != hashes[2]
    assert (tmp_path / "0").read_bytes() != (tmp_path / "1").read_bytes()
