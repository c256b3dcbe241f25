"""What holds for every test: a budget of processor time, and every step of every solve checked."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from levelprox import _kernels
from levelprox.methods.level_method import LevelMethod
from tests.support import children, long_runs
from tests.support.selection import mark, marker_of

HERE = Path(__file__).parent

# Several test processes with several BLAS threads each would only wait for one another.
threadpool_limits(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the long versions."""
    parser.addoption("--long", action="store_true", help="long versions of randomised tests, and tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    """Say how long tests run, before any test file is imported."""
    long_runs.LONG = config.getoption("long")
    # The same examples on every run, so that a change fails for its own faults only; new ones in the long runs.
    settings.register_profile("repeatable", derandomize=True, deadline=None)
    if not long_runs.LONG:
        settings.load_profile("repeatable")


# --- processor time -------------------------------------------------------------------------------------

#: Seconds of processor time of one case, its fixtures excluded.
CPU_BUDGET = 1.0
#: A loaded machine has slower caches; cases are written for the budget itself.
LOADED = 5.0
#: What `_loop` takes on the machine for which the budget is set.
LOOP_SECONDS = 0.018
#: Tests that `make test` leaves out. They have a limit of time alone.
WITHOUT_BUDGET = {"faults", "browser", "studies", "torch", "gpu", "extended", "slow"}


def _loop() -> float:
    """Processor time of a fixed loop."""
    began = time.process_time()
    total = 0
    for i in range(400_000):
        total += i & 7
    return time.process_time() - began


def _slowdown() -> float:
    """How much slower than the machine of the budget this one is now."""
    return max(1.0, min(_loop() for _ in range(3)) / LOOP_SECONDS)


_SLOWDOWN = _slowdown()


def _processor_time() -> float:
    """Of this process, of its threads and of children that have ended, in seconds."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + children.processor_time


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a case that takes more than its budget; processor time depends little on what else the machine does."""
    began = _processor_time()
    result = yield
    used = _processor_time() - began
    marker = item.get_closest_marker("cpu_budget")
    budget = marker.args[0] if marker else CPU_BUDGET
    if used > LOADED * budget and not long_runs.LONG and not any(map(item.get_closest_marker, WITHOUT_BUDGET)):
        slowdown = max(_SLOWDOWN, _slowdown())
        if used > LOADED * budget * slowdown:
            pytest.fail(
                f"{used:.2f} s of processor time, where {budget:g} s are allowed ({LOADED:g} times that under load), on"
                f" a machine {slowdown:.1f} times slower than the reference: make the case smaller, or mark it"
                " cpu_budget(seconds, why)",
                pytrace=False,
            )
    return result


def _is_left_out(path: Path, config: pytest.Config) -> bool:
    """Whether -m "not (…)" leaves nothing of a file."""
    without = config.option.markexpr.removeprefix("not (").removesuffix(")").split(" or ")
    return config.option.markexpr.startswith("not (") and marker_of(path) in without


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which -m "not (…)" leaves nothing."""
    return True if _is_left_out(collection_path, config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the files from the last to the first in every other worker, before they are collected in order.

    In a fresh environment, the first import of a file or a package compiles it to bytecode. Two workers that import in
    the same order compile everything twice; from both ends, each of them compiles half of it.
    """
    gc.disable()  # until the collection is finished: nothing of it is garbage
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    if int(worker) % 2 and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        for path in sorted(HERE.rglob("test_*.py"), reverse=True):
            if not _is_left_out(path, session.config):
                with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
                    importlib.import_module(".".join(("tests", *path.relative_to(HERE).with_suffix("").parts)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark cases that `make test` leaves out, before those with a marker are left out."""
    for item in items:
        if "cp" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.extended)
        if item.get_closest_marker("slow") and not long_runs.LONG:
            item.add_marker(pytest.mark.skip(reason="needs --long"))
    mark(items, whole=config.args_source is pytest.Config.ArgsSource.TESTPATHS)


def pytest_collection_finish() -> None:
    """Thousands of collected items stay to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


# --- clocks ---------------------------------------------------------------------------------------------


@pytest.fixture
def processor_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time count processor time: what can be done within one does not depend on the load."""
    monkeypatch.setattr(time, "monotonic", time.process_time)


class Clock:
    """A clock that advances only when a test requests it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which limits of time are kept."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


# --- every solve ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="session")
def _every_step_is_feasible_and_no_worse() -> Iterator[None]:
    """g(x^k) <= η_k <= η, signs hold, x is finite, and ψ does not rise, at every outer step."""
    judge = LevelMethod._judged

    def watched(self, state, eta_k, last, iterate):
        assert np.all(np.isfinite(iterate.x))
        assert eta_k <= self.problem.level
        assert self.problem.g(iterate.x) <= eta_k
        assert self.problem.is_feasible(iterate.x)
        if self.subsolver.monotone and not self.subsolver.is_random(self.problem.objective):
            assert iterate.psi <= last.psi + 8 * np.finfo(float).eps * abs(last.psi)
        return judge(self, state, eta_k, last, iterate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LevelMethod, "_judged", watched)
        yield


@pytest.fixture(scope="session")
def cp() -> ModuleType:
    """cvxpy, an independent solver; tests that compare with it belong to `make test-all`."""
    return pytest.importorskip("cvxpy")


@pytest.fixture
def instruction_sets() -> Iterator[list[str]]:
    """Names of the vector loops this processor runs; the choice is restored afterwards."""
    names = []
    for name in ("baseline", "avx2", "avx512"):
        try:
            _kernels.use_simd(name)
        except ValueError:
            continue
        assert _kernels.simd_name() == name
        names.append(name)
    yield names
    _kernels.use_simd("auto")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command: its exit code, what it printed, and what it said."""
    from levelprox.cli import main

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
