"""Checkpoints under faults: full disks, damaged files, two writers, signals. The state before stays intact."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from levelprox import (
    Checkpoint,
    CheckpointError,
    InvalidInputError,
    LinearModel,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    Status,
    best_subset,
    constraints,
    path,
    solve,
    subset_path,
)
from levelprox.exceptions import CheckpointLockedError, CheckpointWarning, FileFormatError
from levelprox.io import atomic, checkpoint, container
from levelprox.io.checkpoint import CheckpointFile
from tests.support import children
from tests.support.children import Child, Ended
from tests.support.long_runs import LONG

pytestmark = pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(1)
X = RNG.standard_normal((40, 8))
SIGNAL = X[:, 3] - 2 * X[:, 5] + 0.3 * RNG.standard_normal(40)
PROBLEM = Problem(LinearModel(X, SIGNAL, loss="absolute"), constraints.MCP.from_threshold(0.1), 2.5)


def begun(file: Path, steps: int = 5):
    """A run that was broken off after so many steps, with its state in a file."""
    return solve(PROBLEM, checkpoint=Checkpoint(file, 0), max_iter=steps)


def others(directory: Path, *known: Path) -> list[str]:
    return sorted(set(os.listdir(directory)) - {one.name for one in known})


# --- the file


def test_two_states_are_kept_and_nothing_else(tmp_path):
    file = tmp_path / "state"
    begun(file)
    assert others(tmp_path, file) == ["state.previous"]
    assert checkpoint.read(file).metadata["format"] == "levelprox checkpoint"
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_state_is_written_at_every_interval_and_at_the_end(tmp_path, monkeypatch):
    written = []
    write = CheckpointFile.write
    monkeypatch.setattr(CheckpointFile, "write", lambda self, contents: (written.append(1), write(self, contents))[1])
    fit = solve(PROBLEM, checkpoint=Checkpoint(tmp_path / "each", 0))
    assert len(written) > fit.n_outer
    written.clear()
    solve(PROBLEM, checkpoint=tmp_path / "rarely")
    assert len(written) == 2  # when it begins, and when it ends


def test_every_cut_and_every_flipped_byte_is_detected(tmp_path):
    file = tmp_path / "state"
    solve(PROBLEM, checkpoint=file, max_iter=1)
    file.with_name("state.previous").unlink()
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(whole)):
        bits = range(8) if LONG else [int(rng.integers(8))]
        flipped = [whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :] for bit in bits]
        for damaged in (*flipped, whole[:place]):
            with pytest.raises(FileFormatError, match=r"^state: "):
                container.unpack(damaged, "state")
    file.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match=r"state: the checksum does not match: the file is damaged$"):
        solve(PROBLEM, checkpoint=file, resume=True)
    assert file.read_bytes() == whole[:-1]


def test_a_damaged_state_is_replaced_by_the_one_before_it(tmp_path):
    file, reference = tmp_path / "state", solve(PROBLEM)
    begun(file)
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.warns(CheckpointWarning, match=r"state: .*damaged; continuing from .*state.previous"):
        rest = solve(PROBLEM, checkpoint=file, resume=True)
    np.testing.assert_array_equal(rest.x, reference.x)
    checkpoint.read(file.with_name("state.previous"))  # which the damaged one did not replace
    file.unlink()
    with pytest.warns(CheckpointWarning, match="there is no such file; continuing from"):
        rest = solve(PROBLEM, checkpoint=file, resume=True)
    np.testing.assert_array_equal(rest.x, reference.x)


def test_a_file_of_another_kind_or_version_is_refused(tmp_path):
    file = tmp_path / "state"
    begun(file)
    contents = checkpoint.read(file)
    file.with_name("state.previous").unlink()
    for changed, words in (
        ({"format": "levelprox model"}, "this is no checkpoint, but a levelprox model"),
        ({"format_version": "7", "levelprox": "9.1"}, "written by levelprox 9.1 in format 7; this one reads format 1"),
        ({"run": "[]"}, "this is not the state of a run"),
        ({"run": "{"}, "this is not the state of a run"),
        ({"journal": "[]"}, "this is not the state of a run"),
        ({"journal": '{"kind":"Popen","fields":{}}'}, "damaged, or of another version"),
    ):
        atomic.write(file, container.pack(container.Contents({**contents.metadata, **changed}, contents.arrays)))
        with pytest.raises((CheckpointError, FileFormatError), match=words):
            solve(PROBLEM, checkpoint=file, resume=True)
    file.write_bytes(b"")
    with pytest.raises(CheckpointError, match="0 bytes are too few"):
        solve(PROBLEM, checkpoint=file, resume=True)


# --- what it is a state of


OTHERS = {
    "the data": Problem(LinearModel(X + 1e-13, SIGNAL, loss="absolute"), PROBLEM.constraint, 2.5),
    "the target": Problem(LinearModel(X, SIGNAL + 1e-13, loss="absolute"), PROBLEM.constraint, 2.5),
    "the loss": Problem(LinearModel(X, SIGNAL, loss="huber"), PROBLEM.constraint, 2.5),
    "the constraint": Problem(PROBLEM.objective, constraints.MCP.from_threshold(0.2), 2.5),
    "level": Problem(PROBLEM.objective, PROBLEM.constraint, 3.5),
    "the weights": Problem(PROBLEM.objective, PROBLEM.constraint, 2.5, np.r_[2.0, np.ones(7)]),
    "nonnegative": Problem(PROBLEM.objective, PROBLEM.constraint, 2.5, nonnegative=True),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_state_of_another_problem_is_refused_in_words(tmp_path, what):
    begun(tmp_path / "state")
    words = {"the data": "the data are", "the target": "the data are", "the loss": "ψ at a test point are"}.get(
        what, what
    )
    with pytest.raises(CheckpointError, match=f"of another run: {words}"):
        solve(OTHERS[what], checkpoint=tmp_path / "state", resume=True)


@pytest.mark.parametrize(
    "options", [{"tol": 1e-7}, {"start": "direct"}, {"gamma": 2.0}, {"x0": np.zeros(8)}, {"levels": "harmonic"}]
)
def test_a_state_of_other_options_is_refused_in_words(tmp_path, options):
    begun(tmp_path / "state")
    with pytest.raises(CheckpointError, match=f"of another run: {next(iter(options))} was"):
        solve(PROBLEM, checkpoint=tmp_path / "state", resume=True, **options)


def swapped(column):
    """Two entries of a column changed places, both of the same class."""
    data = np.array(X)
    first, second = np.flatnonzero(SIGNAL > 0)[:2]
    data[[first, second], column] = data[[second, first], column]
    return data


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["k", "level", "cv", "path"])
def test_entries_that_changed_places_are_noticed(tmp_path, kind, fit_intercept, loss):
    """ψ and its gradient at a point can be the same to the last bit although the data are not."""
    y = np.where(SIGNAL > 0, 1.0, -1.0)

    def fit(data, **options):
        if kind == "path":
            model = LinearModel(data, y, loss=loss, fit_intercept=fit_intercept)
            return subset_path(model, [1], checkpoint=tmp_path / "state", **options)
        budget = {"k": {"n_features": 1}, "level": {"level": 1.5}, "cv": {"n_features": [1, 2], "cv": 2}}[kind]
        estimator = SparseClassifierCV if kind == "cv" else SparseClassifier
        model = estimator(loss, fit_intercept=fit_intercept, checkpoint=tmp_path / "state", **budget, **options)
        return model.fit(data, y)

    fit(X)
    fit(X, resume=True)
    with pytest.raises(CheckpointError, match="the data are not the same"):
        fit(swapped(2), resume=True)


def test_a_target_and_weights_that_changed_places_are_noticed(tmp_path):
    weight = np.ones(40)
    weight[:20] = 2.0
    model = LinearModel(X, SIGNAL, loss="absolute", sample_weight=weight)
    best_subset(model, 1, checkpoint=tmp_path / "state")
    high = np.flatnonzero(SIGNAL > 1)[:2]
    target = np.array(SIGNAL)
    target[high] = target[high[::-1]]
    for other in (
        LinearModel(X, target, loss="absolute", sample_weight=weight),
        LinearModel(X, SIGNAL, loss="absolute", sample_weight=weight[::-1].copy()),
        LinearModel(X, SIGNAL, loss="absolute", sample_weight=weight, offset=np.full(40, 1e-3)),
    ):
        with pytest.raises(CheckpointError, match="the data are not the same"):
            best_subset(other, 1, checkpoint=tmp_path / "state", resume=True)


def test_a_state_of_another_function_is_refused(tmp_path):
    begun(tmp_path / "state")
    with pytest.raises(CheckpointError, match="of another run"):
        path(PROBLEM, [1.5, 2.5], checkpoint=tmp_path / "state", resume=True)
    with pytest.raises(CheckpointError, match="of another run"):
        best_subset(PROBLEM.objective, 2, checkpoint=tmp_path / "state", resume=True)


def test_folds_that_are_drawn_anew_are_refused(tmp_path):
    from sklearn.model_selection import KFold

    options = {"n_features": [1, 2], "cv": KFold(3, shuffle=True), "checkpoint": tmp_path / "state"}
    y = SIGNAL > 0
    SparseClassifierCV(**options).fit(X, y)
    with pytest.raises(CheckpointError, match="give the splitter of cv a fixed random_state"):
        SparseClassifierCV(**options, resume=True).fit(X, y)


def test_an_existing_checkpoint_is_not_overwritten_by_default(tmp_path):
    file = tmp_path / "state"
    begun(file)
    before = file.read_bytes()
    with pytest.raises(CheckpointError, match="the checkpoint already exists; resume=True continues from it"):
        solve(PROBLEM, checkpoint=file)
    begun(tmp_path / "other")
    with pytest.raises(CheckpointError, match="the checkpoint already exists"):
        solve(PROBLEM, checkpoint=file, resume=tmp_path / "other")
    assert file.read_bytes() == before


def test_what_to_resume_from_is_checked(tmp_path):
    with pytest.raises(InvalidInputError, match="resume=True continues from the checkpoint: give checkpoint"):
        solve(PROBLEM, resume=True)
    with pytest.raises(InvalidInputError, match="resume must be True, False or a path, got 3"):
        solve(PROBLEM, checkpoint=tmp_path / "a", resume=3)
    with pytest.raises(InvalidInputError, match="checkpoint must be a path or a Checkpoint, got 3"):
        solve(PROBLEM, checkpoint=3)
    with pytest.raises(InvalidInputError, match="every must"):
        Checkpoint("state", every=-1)
    with pytest.raises(CheckpointError, match="nothing: there is no such file"):
        solve(PROBLEM, checkpoint=tmp_path / "a", resume=tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match="random_state must be an integer"):
        solve(PROBLEM, preset="paper", max_iter=2, checkpoint=tmp_path / "a")
    assert others(tmp_path) == []


def test_a_resume_without_anything_there_begins(tmp_path):
    fit = solve(PROBLEM, checkpoint=tmp_path / "state", resume=True)
    assert fit.status is Status.SOLVED


def test_a_relative_path_is_where_the_run_began(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    solve(PROBLEM, checkpoint=Checkpoint("state", 0), callback=lambda record, x: os.chdir(tmp_path / "sub"))
    assert others(tmp_path / "sub") == []
    assert others(tmp_path) == ["state", "state.previous", "sub"]


def test_what_was_left_by_a_killed_process_is_removed(tmp_path):
    for name in (".state.0123456789ab.tmp", ".state.previous.0123456789ab.tmp", ".state.mine.tmp"):
        (tmp_path / name).write_text("")
    solve(PROBLEM, checkpoint=tmp_path / "state")
    assert others(tmp_path) == [".state.mine.tmp", "state", "state.previous"]


def test_warm_starts_and_checkpoints_do_not_go_together(tmp_path):
    model = SparseClassifier(n_features=2, warm_start=True, checkpoint=tmp_path / "state")
    with pytest.raises(InvalidInputError, match="warm_start begins at the last fit, a checkpoint at the last state"):
        model.fit(X, SIGNAL > 0)


def test_a_finished_run_is_kept_in_the_other_file_too(tmp_path):
    whole = solve(PROBLEM, checkpoint=tmp_path / "a")
    solve(PROBLEM, checkpoint=tmp_path / "b", resume=tmp_path / "a")
    np.testing.assert_array_equal(solve(PROBLEM, checkpoint=tmp_path / "b", resume=True).x, whole.x)


def test_file_systems_without_locks_are_an_error(tmp_path, monkeypatch):
    def unsupported(handle, how):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with pytest.raises(CheckpointError, match="files cannot be locked there: Function not implemented") as caught:
        solve(PROBLEM, checkpoint=tmp_path / "state")
    assert not isinstance(caught.value, CheckpointLockedError)
    assert others(tmp_path) == []


def test_resuming_from_one_file_and_writing_to_another(tmp_path):
    begun(tmp_path / "old")
    before = (tmp_path / "old").read_bytes()
    rest = solve(PROBLEM, checkpoint=tmp_path / "new", resume=tmp_path / "old")
    np.testing.assert_array_equal(rest.x, solve(PROBLEM).x)
    assert (tmp_path / "old").read_bytes() == before
    alone = solve(PROBLEM, resume=tmp_path / "old")  # which is then the checkpoint, too
    np.testing.assert_array_equal(alone.x, rest.x)
    assert (tmp_path / "old").read_bytes() != before


# --- where it cannot be written


def test_a_place_that_cannot_be_written_to_is_known_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    told = []
    for place in (tmp_path / "missing" / "state", tmp_path / "file" / "state"):
        with pytest.raises(CheckpointError, match="no checkpoint can be written there"):
            solve(PROBLEM, checkpoint=place, callback=lambda record, x: told.append(record))
    with pytest.raises(CheckpointError, match=r"the checkpoint already exists|no checkpoint can be written there"):
        solve(PROBLEM, checkpoint=tmp_path)
    assert not told


@pytest.mark.process
def test_a_directory_that_may_only_be_read_is_known_before_any_work(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.access(closed, os.W_OK):  # root may write anywhere but where the file system itself is closed
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", closed], capture_output=True).returncode:
            pytest.skip("a directory cannot be closed to this user, and no file system mounted")
        try:
            with pytest.raises(CheckpointError, match="Read-only file system"):
                solve(PROBLEM, checkpoint=closed / "state")
        finally:
            subprocess.run(["umount", closed], check=True)
        return
    with pytest.raises(CheckpointError, match="Permission denied"):
        solve(PROBLEM, checkpoint=closed / "state")


def test_a_disk_that_is_full_from_the_beginning_is_an_error(tmp_path):
    with limited_to(100), pytest.raises(CheckpointError, match=r"no checkpoint can be written there: .*File too large"):
        solve(PROBLEM, checkpoint=tmp_path / "state")
    assert others(tmp_path) == []


def test_a_disk_that_fills_up_is_a_warning_and_what_was_there_stays(tmp_path):
    file, reference = tmp_path / "state", solve(PROBLEM)
    begun(file, 3)
    before, size = file.read_bytes(), file.stat().st_size
    with (
        limited_to(size // 2),
        pytest.warns(CheckpointWarning, match="File too large. The run continues; the previous state"),
    ):
        rest = solve(PROBLEM, checkpoint=file, resume=True)
    np.testing.assert_array_equal(rest.x, reference.x)
    assert file.read_bytes() == before
    assert others(tmp_path, file) == ["state.previous"]


class limited_to:  # noqa: N801 - reads as words
    """Files of this process may have so many bytes, until the block ends."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *error: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@pytest.mark.process
def test_a_real_disk_that_fills_up(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.decode().strip()}")
    try:
        file = disk / "state"
        begun(file, 3)
        before = file.read_bytes()
        (disk / "rest").write_bytes(b"\0" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        with pytest.warns(CheckpointWarning, match="No space left on device. The run continues; the previous state is"):
            rest = solve(PROBLEM, checkpoint=file, resume=True)
        np.testing.assert_array_equal(rest.x, solve(PROBLEM).x)
        assert file.read_bytes() == before
        assert others(disk, file) == ["rest", "state.previous"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_directory_that_is_removed_meanwhile_is_a_warning(tmp_path):
    place = tmp_path / "place"
    place.mkdir()

    def remove(record, x):
        if record.k == 2:
            for one in place.iterdir():
                one.unlink()
            place.rmdir()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit = solve(PROBLEM, checkpoint=Checkpoint(place / "state", 0), callback=remove)
    assert fit.status is Status.SOLVED
    words = [str(one.message) for one in told if one.category is CheckpointWarning]
    assert len(words) > 1
    assert "No such file or directory" in words[0] and "no state is saved" in words[0]


# --- two at once


@pytest.mark.process
def test_two_runs_do_not_share_a_file(tmp_path):
    file = tmp_path / "state"
    script = f"""
        import signal
        from levelprox.io.checkpoint import CheckpointFile
        held = CheckpointFile({str(file)!r})
        print("held", flush=True)
        signal.pause()
    """
    with Child(script) as other:  # killed in the end, which must not leave it locked
        assert other.line() == "held"
        with pytest.raises(CheckpointLockedError, match=f"another run, process {other.pid}, keeps its state there"):
            solve(PROBLEM, checkpoint=file)
        assert others(tmp_path) == ["state.lock"]
    assert solve(PROBLEM, checkpoint=file).status is Status.SOLVED
    assert others(tmp_path, file) == ["state.previous"]


def test_threads_that_want_one_file_get_it_one_after_another(tmp_path):
    held, most, counted = [], [], threading.Lock()

    def hold() -> None:
        while True:
            try:
                with CheckpointFile(tmp_path / "state"):
                    with counted:
                        held.append(1)
                        most.append(len(held))
                    time.sleep(0.001)
                    with counted:
                        held.pop()
                return
            except CheckpointLockedError:
                time.sleep(0.001)

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == [1] * 8
    assert others(tmp_path) == []


# --- signals


def fit_and_send(tmp_path: Path, number: int, more: str = "") -> Ended:
    """A process that fits, and sends itself a signal at the tenth step."""
    script = f"""
        import os, signal, sys
        import numpy as np
        from levelprox import SparseClassifier
        {more}
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, 20))
        y = X[:, 3] - 2 * X[:, 7] + rng.standard_normal(60) > 0
        steps = []

        def callback(record):
            steps.append(record)
            if len(steps) == 10:
                os.kill(os.getpid(), {number})

        model = SparseClassifier("hinge", level=2.5, checkpoint="state", callback=callback)
        try:
            model.fit(X, y)
        except KeyboardInterrupt as error:
            print("interrupted:", error, model.selected_features_.size)
        print("after")
    """
    return children.run(script, cwd=tmp_path)


def finished(tmp_path: Path):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((60, 20))
    y = data[:, 3] - 2 * data[:, 7] + rng.standard_normal(60) > 0
    steps: list = []
    rest = SparseClassifier("hinge", level=2.5, checkpoint=tmp_path / "state", resume=True, callback=steps.append)
    return rest.fit(data, y), SparseClassifier("hinge", level=2.5).fit(data, y), steps


@pytest.mark.process
def test_ctrl_c_keeps_the_state_and_says_how_to_resume(tmp_path):
    run = fit_and_send(tmp_path, signal.SIGINT)
    assert run.returncode == 0, run.stderr
    assert "Its state is saved; resume='state' continues." in run.stdout
    rest, whole, steps = finished(tmp_path)
    np.testing.assert_array_equal(rest.coef_, whole.coef_)
    assert 0 < len(steps) < whole.n_iter_


@pytest.mark.process
def test_sigterm_keeps_the_state_and_then_ends_the_process(tmp_path):
    run = fit_and_send(tmp_path, signal.SIGTERM)
    assert run.returncode == -signal.SIGTERM
    assert "Terminated. The state is saved; resume='state' continues" in run.stderr
    assert "after" not in run.stdout
    assert others(tmp_path) == ["state", "state.previous"]
    rest, whole, steps = finished(tmp_path)
    np.testing.assert_array_equal(rest.coef_, whole.coef_)
    assert 0 < len(steps) < whole.n_iter_


@pytest.mark.process
def test_a_handler_of_sigterm_by_the_user_is_left_alone(tmp_path):
    run = fit_and_send(tmp_path, signal.SIGTERM, 'signal.signal(signal.SIGTERM, lambda *_: print("mine"))')
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["mine", "after"]


def test_the_handler_is_put_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    solve(PROBLEM, checkpoint=tmp_path / "state")
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ZeroDivisionError):
        solve(PROBLEM, checkpoint=tmp_path / "other", callback=lambda record, x: 1 / 0)
    assert signal.getsignal(signal.SIGTERM) is before


def test_runs_in_other_threads_are_kept_too(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(solve(PROBLEM, checkpoint=tmp_path / "state")))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0].x, solve(PROBLEM).x)
