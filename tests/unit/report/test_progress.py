"""`verbose`: nothing, lines, or a bar that leaves the terminal clean however the fit ends."""

import io
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from levelprox import InvalidInputError, LinearModel, SparseRegressor, SparseRegressorCV, Status, best_subset, report
from levelprox.report.progress import Line, Lines, RichBar, in_words, showing
from levelprox.subset.result import SubsetRecord

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
BUDGETS = [{"n_features": 3}, {"level": 3.5}]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture
def terminal(monkeypatch):
    """Puts a terminal in the place of stderr; to be called in the test, since pytest sets its own just before."""

    def put(columns="120"):
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", columns)
        return stream

    return put


def without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("verbose", [0, False, np.int64(0)])
def test_silence_is_the_default(budget, verbose, diabetes, capfd):
    SparseRegressor(**budget, verbose=verbose).fit(*diabetes)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [True, 1, 2])
def test_lines_of_a_fit_of_k_features(verbose, diabetes, capfd):
    model = SparseRegressor(n_features=3, verbose=verbose).fit(*diabetes)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert 2 <= len(lines) <= 2 + model.history_[-1].seconds  # the first, the last, and one a second
    assert all(line.startswith("SparseRegressor  ") and "refit" in line for line in lines)
    assert f"loss {model.certificate_.psi:.6f}  3 features" in lines[-1]


def test_lines_of_a_fit_under_a_level(diabetes, capfd):
    model = SparseRegressor(level=3.5, verbose=1).fit(*diabetes)
    lines = capfd.readouterr().err.splitlines()
    last = model.history_[-1]
    assert f"step {last.k:4d}  loss {last.psi:.6f}" in lines[-1]
    assert f"KKT {last.kkt:.1e}  {model.selected_features_.size} features" in lines[-1]


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ({"cv": 3, "loss": "huber"}, "6 of 6 fits"),
        ({"cv": 3}, "3 of 3 folds"),
        ({"criterion": "bic"}, "2 of 2 fits"),
    ],
    ids=["cv", "cv of a squared loss", "criterion"],
)
def test_lines_of_a_choice_count(options, last, diabetes, capfd):
    SparseRegressorCV(n_features=[1, 2], verbose=1, **options).fit(*diabetes)
    lines = [line for line in capfd.readouterr().err.splitlines() if " of " in line]
    assert last in lines[-1]
    SparseRegressorCV(n_features=[1, 2], **options).fit(*diabetes)
    assert capfd.readouterr().err == ""


def test_the_time_left_is_shown(monkeypatch):
    clock = iter([0.0, 10.0, 10.0, 40.0, 40.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    lines = Lines("Fit", 4, "folds", stream)
    lines.advance()
    lines.done = 3
    lines.advance()
    assert stream.getvalue().splitlines() == ["Fit  1 of 4 folds  10.0 s  about 30 s left", "Fit  4 of 4 folds  40.0 s"]


@pytest.mark.parametrize("verbose", [-1, 0.5, "yes", None])
@pytest.mark.parametrize("kind", [SparseRegressor, SparseRegressorCV])
def test_verbose_must_be_a_whole_number(verbose, kind, diabetes):
    with pytest.raises(InvalidInputError, match="verbose"):
        kind(verbose=verbose).fit(*diabetes)


def test_a_bar_on_a_terminal_leaves_it_clean(terminal, diabetes):
    pytest.importorskip("rich")
    stream = terminal()
    SparseRegressor(n_features=4, verbose=1).fit(*diabetes)
    shown = stream.getvalue()
    assert shown.count(SHOW_CURSOR) == shown.count(HIDE_CURSOR) == 1
    assert shown.endswith("\x1b[2K")  # the line of the bar is erased


def test_a_bar_counts_folds(terminal, diabetes):
    pytest.importorskip("rich")
    stream = terminal()
    SparseRegressorCV(n_features=[1, 2], cv=3, verbose=1).fit(*diabetes)
    assert stream.getvalue().count(SHOW_CURSOR) == 2  # the folds, and the last fit


def test_what_a_bar_shows(terminal):
    pytest.importorskip("rich")
    stream = terminal()
    with showing("Fit", stream=stream) as progress:
        assert isinstance(progress, RichBar)
        progress.step(SubsetRecord(1, "proof", 0.25, 3, 17, 0.5, done=0.5))
        (task,) = progress.bar.tasks
        assert (task.completed, task.total) == (0.5, 1.0)
        assert task.fields["state"].startswith("proof 50 %  loss 0.250000  3 features  17 refits")
        progress.step(SubsetRecord(1, "exchanges", 0.25, 3, 17, 0.5))
        assert task.total is None
    with showing("Fit", 4, "folds", stream=stream) as progress:
        progress.advance()
        (task,) = progress.bar.tasks
        assert (task.completed, task.fields["state"]) == (1, "1 of 4 folds")


@pytest.mark.parametrize("rich", [True, False], ids=["bar", "line"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_an_error_of_the_callback_leaves_the_terminal_clean(budget, error, rich, terminal, diabetes, monkeypatch):
    if rich:
        pytest.importorskip("rich")
    else:
        without_rich(monkeypatch)

    def fail(record):
        raise error("enough")

    stream = terminal()
    with pytest.raises(error, match=r"enough|Interrupted"):
        SparseRegressor(**budget, verbose=1, callback=fail).fit(*diabetes)
    shown = stream.getvalue()
    assert shown.count(SHOW_CURSOR) == shown.count(HIDE_CURSOR) == int(rich)
    assert shown.endswith("\x1b[2K" if rich else "\n")


def test_without_rich_a_line_is_rewritten_in_place(terminal, diabetes, monkeypatch):
    without_rich(monkeypatch)
    stream = terminal("60")
    SparseRegressor(level=3.5, verbose=1).fit(*diabetes)
    shown = stream.getvalue()
    assert shown.startswith("\r") and shown.endswith("\n") and shown.count("\n") == 1
    assert all(len(part) < 60 + len("\x1b[K\n") for part in shown.split("\r"))


def test_a_dumb_terminal_and_a_live_display_of_somebody_else_get_lines(terminal, monkeypatch):
    errors = pytest.importorskip("rich.errors")
    terminal()
    monkeypatch.setenv("TERM", "dumb")
    with showing("Fit") as progress:
        assert isinstance(progress, Lines)
    monkeypatch.setenv("TERM", "xterm")

    def no_more(*args):
        raise errors.LiveError("only one live display may be active at once")

    with showing("Fit") as progress:
        assert isinstance(progress, RichBar)
    monkeypatch.setattr("levelprox.report.progress.RichBar", no_more)
    with showing("Fit") as progress:
        assert isinstance(progress, Lines)


def test_a_program_without_a_console_fits_in_silence(diabetes, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert SparseRegressor(n_features=1, verbose=1).fit(*diabetes).status_ is Status.SOLVED


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_callback_runs_and_can_stop_while_progress_is_shown(budget, diabetes, capfd):
    seen = []

    def stop(record):
        seen.append(record)
        return True

    model = SparseRegressor(**budget, verbose=1, callback=stop).fit(*diabetes)
    assert model.status_ is Status.CALLBACK_STOP
    assert len(seen) == 1
    assert capfd.readouterr().err.splitlines()[-1].endswith(in_words(seen[-1]).split("  ")[-1])


@pytest.mark.parametrize("kind", [SparseRegressor, SparseRegressorCV])
def test_a_callback_must_be_callable(kind, diabetes):
    with pytest.raises(InvalidInputError, match="callback"):
        kind(callback=3).fit(*diabetes)


def test_progress_of_a_level_goes_on_during_continuation(diabetes, monkeypatch, capfd):
    """Continuation has no outer steps; its progress is reported between them, and never to the user's callback."""
    monkeypatch.setattr("levelprox.driver.PROGRESS_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("levelprox.report.progress._OTHER_SECONDS", 0.0)
    seen = []
    model = SparseRegressor(level=3.5, verbose=1, callback=seen.append).fit(*diabetes)
    lines = capfd.readouterr().err.splitlines()
    assert any("(continuation, stage 2, " in line for line in lines)
    assert [record.k for record in seen] == [record.k for record in model.history_]


def test_a_line_is_printed_while_no_progress_is_reported(monkeypatch):
    monkeypatch.setattr("levelprox.report.progress._OTHER_HEARTBEAT_SECONDS", 0.01)
    stream = io.StringIO()
    with showing("Fit", 4, "fits", stream=stream) as progress:
        assert isinstance(progress, Lines)
        progress.line.every = 0.0
        progress.advance()
        until = time.monotonic() + 30
        while "still running" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.005)
    assert "Fit  1 of 4 fits" in stream.getvalue() and "(still running, 0 s)" in stream.getvalue()
    after = stream.getvalue()
    time.sleep(0.05)
    assert stream.getvalue() == after  # the thread ends with the block


def test_the_progress_line_is_for_best_subset_too(capfd):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 10))
    line = report.ProgressLine(every=0.0)
    best_subset(LinearModel(X, X[:, 1]), 1, callback=line)
    line.close()
    assert "forward" in capfd.readouterr().err


def test_a_line_is_withheld_until_its_time_and_shown_in_the_end():
    stream = io.StringIO()
    line = Line(stream, every=1000.0)
    for text in ("first", "second", "third"):
        line.show(text)
    assert stream.getvalue() == "first\n"
    line.close()
    assert stream.getvalue() == "first\nthird\n"
    line.close()
    assert stream.getvalue() == "first\nthird\n"
