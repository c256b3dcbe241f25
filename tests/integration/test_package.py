"""The package from outside: Ctrl-C, cost of importing, no warm-up, public names."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn.exceptions

import levelprox
from tests.support import ROOT, children
from tests.support.children import Child, Ended

# --- Ctrl-C ------------------------------------------------------------------------------------------

INTERRUPTED = """
import time, warnings
import numpy as np
import levelprox
from levelprox import LinearModel, Problem, constraints, minimize, solve
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 1000))
b = X[:, 0] + rng.standard_normal(4000)
c = rng.standard_normal(50)
calls = []
def fun(x, sleeps):
    calls.append(sleeps)
    if sleeps and sum(calls) == 20:
        print("asleep", flush=True)
        time.sleep(60)
    return float((x - c) @ (x - c)), 2 * (x - c)
compiled = LinearModel(X, b)
python, sleeping = (levelprox.Function(lambda x, sleeps=sleeps: fun(x, sleeps), 50) for sleeps in (False, True))
for objective in (compiled, python, sleeping):
    problem = Problem(objective, constraints.Log(2.0), 3.0)
    print("ready", flush=True)
    result = solve(problem, tol=0, max_iter=10**9)
    print(time.process_time(), flush=True)
    print(result.status, problem.g(result.x) <= problem.level, bool(np.isfinite(result.x).all()), flush=True)
"""


@pytest.mark.process
def test_ctrl_c_returns_a_feasible_point_within_a_second():
    """In a compiled model, in a function in Python, and in one that sleeps: a second of its own processor time."""
    with Child(INTERRUPTED) as child:
        for kind in ("compiled", "python", "sleeping"):
            assert child.line() == "ready"
            if kind == "sleeping":
                assert child.line() == "asleep"
            else:
                child.work(0.2)
            assert child.interrupt() < 1.0
            assert child.line() == "interrupted True True"
        assert child.ended() == Ended(0, "", "")


# --- the package ---------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.extended  # interpreters that have imported nothing
def test_importing_costs_little_beyond_scikit_learn():
    # Processor time: what else the machine does is not the package's fault. Compiled to bytecode, as for all users.
    script = (
        "import time, sklearn; t = time.process_time(); from levelprox import solve; print(time.process_time() - t)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", script]
    seconds = [float(subprocess.check_output(command, env=environment)) for _ in range(3)]
    assert min(seconds) < 0.2


WITHOUT_SCIKIT_LEARN = """
import sys, warnings
import numpy as np
import levelprox.constraints
from levelprox import ConvergenceWarning, LinearModel, Problem, best_subset, constraints, certify, path, solve
from levelprox import backends, driver, io, methods, online, report, subset, theory
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 8)); b = X[:, 0] - X[:, 1]
problem = Problem(LinearModel(X, b), constraints.MCP.from_threshold(0.5), 2.5)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    solve(problem, max_iter=0)
print(*{warning.category is ConvergenceWarning for warning in found})
certify(problem, solve(problem).x); best_subset(LinearModel(X, b), 2); path(problem, [1.0, 2.0])
print([name for name in sys.modules if name.split(".")[0] == "sklearn"])
"""


def test_solvers_load_no_module_of_scikit_learn():
    assert subprocess.check_output([sys.executable, "-c", WITHOUT_SCIKIT_LEARN], text=True) == "True\n[]\n"


def test_estimators_warn_with_the_category_of_scikit_learn_and_with_ours():
    """Also for fits in other threads: folds, subsamples."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    model = levelprox.SparseRegressor(level=2.0, max_iter=0)  # ends before its tolerance, however fast fits converge
    for category in (levelprox.ConvergenceWarning, sklearn.exceptions.ConvergenceWarning):
        with pytest.warns(category):
            model.fit(X, y)
    chosen = levelprox.SparseRegressorCV(level=[1.0, 2.0], max_iter=0, n_jobs=2)
    with joblib.parallel_config("threading"), pytest.warns(sklearn.exceptions.ConvergenceWarning) as found:
        chosen.fit(X, y)
    assert not any(warning.category is levelprox.ConvergenceWarning for warning in found)


def test_the_public_names_are_there():
    for name in levelprox.__all__:
        assert hasattr(levelprox, name)


def test_type_checkers_see_the_public_names():
    stub = Path(levelprox.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = re.findall(r"^from (\S+) import (\S+) as \2$", stub, re.MULTILINE)
    assert sorted([*(name for _, name in imports), *re.findall(r"^(\w+) = ", stub, re.MULTILINE)]) == levelprox.__all__
    for module, name in imports:
        assert getattr(importlib.import_module(module), name) is getattr(levelprox, name)
    assert "__all__" not in stub  # without its values, checkers take it that `from levelprox import *` imports nothing


@pytest.mark.process
def test_no_warm_up():
    """The first fit of a process costs what the second does: nothing is compiled at run time."""
    script = textwrap.dedent("""
        import time
        import numpy as np
        from levelprox import LinearModel, Problem, constraints, solve
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 50)); b = X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(300)
        def fit():
            t = time.process_time()
            solve(Problem(LinearModel(X, b), constraints.MCP.from_threshold(0.5), 2.5))
            return time.process_time() - t
        print(fit(), min(fit() for _ in range(5)))
    """)
    first, later = map(float, children.run(script).stdout.split())
    assert first < later + 0.3


@pytest.mark.process
@pytest.mark.cpu_budget(15, "the demo itself")
def test_the_demo_prints_what_it_should():
    demo = ROOT / "examples" / "demo.py"
    output = children.run(demo.read_text()).stdout
    assert "8 features of at most 8" in output
    assert output.count("est error") == 2
    assert "Certificate, recomputed from the data" in output
    assert "per feature of budget" in output and "one-standard-error rule" in output


@pytest.mark.process
def test_the_readme_examples_print_what_they_say():
    text = (ROOT / "README.md").read_text()
    pairs = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", text, re.S)
    assert len(pairs) == 4
    code, expected = ("".join(parts) for parts in zip(*pairs, strict=True))
    output = children.run(code).stdout
    numbers = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
    found, promised = ([float(n) for n in numbers.findall(part)] for part in (output, expected))
    assert numbers.sub("#", output).strip() == numbers.sub("#", expected).strip()
    np.testing.assert_allclose(found, promised, rtol=0.2, atol=1e-6)
