"""Experiments as tasks: failures, stored results, messages and the command."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.__main__ import main
from experiments.competitors import MissingError
from experiments.datasets import VARIABLE, DataError, Places
from experiments.datasets.places import ORIGINALS
from experiments.reproduce import workers
from experiments.reproduce.parts import FolderError, Parts
from experiments.reproduce.run import Session
from experiments.reproduce.serve import _end
from experiments.reproduce.study import Outcome, Scope, Study
from experiments.reproduce.task import Answer, SkippedError, Task
from experiments.reproduce.workers import Worker, answers
from tests.support import ROOT, small_studies
from tests.support.children import Child, Ended
from tests.support.small_studies import task

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    for variable in (VARIABLE, ORIGINALS):
        monkeypatch.setenv(variable, "")  # to be restored, also where a command sets it


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.txt"


def all_answers(tasks, log, workers=2):
    with closing(answers(tasks, workers, 1, log)) as coming:
        return {one.key[0]: answer for one, answer in coming}


# --- processes


def test_whatever_becomes_of_one_task_the_others_are_done(log):
    """Every way to end at once, on two workers that are used again or replaced."""
    hows = ("raises", "skips", "exits", "exits python", "crashes", "object", "aborts")
    bad = [task("ends", how, how=how) for how in hows]
    good = [task("rows", f"good {i}", values=[i, None, float("inf")]) for i in range(4)]
    both = [*bad[:2], good[0], *bad[2:4], good[1], *bad[4:], good[2]]
    memory = [task("ends", f"memory {how}", how=how, memory=1.0) for how in ("memory", "aborts", "crashes")]
    found = all_answers([*both, *memory, good[3]], log)
    reasons = {key: (answer.ended, answer.reason) for key, answer in found.items() if "good" not in key}
    assert reasons == {
        "raises": ("failed", "ArithmeticError: one over zero"),
        "skips": ("skipped", "no such program here"),
        "exits": ("failed", "the process ended with status 7"),
        "exits python": ("failed", "the process ended with status 1"),
        "crashes": ("failed", "the process was ended by SIGSEGV"),
        "object": ("failed", "TypeError: a row has a object, which JSON cannot hold"),
        "aborts": ("failed", "the process was ended by SIGABRT"),
        "memory memory": ("limit", "ran out of its 1 GiB of memory"),
        "memory aborts": ("limit", "the process was ended by SIGABRT, with 1 GiB of memory"),
        "memory crashes": ("limit", "the process was ended by SIGSEGV, with 1 GiB of memory"),
    }
    for i in range(4):
        assert found[f"good {i}"].rows == [{"value": i}, {"value": None}, {"value": float("inf")}]
        assert found[f"good {i}"].ended == "done"
    assert found["memory memory"].rows == [{"value": 0}] and found["memory memory"].counts
    told = log.read_text()
    assert "--- small raises" in told and "in ends" in told and "goodbye" in told


def test_a_limit_ends_a_task_and_keeps_its_rows(log):
    """Also of one that sends rows faster than they are read."""
    tasks = [task("hangs", "slow", limit=0.2, every=60), task("hangs", "fast", limit=0.2, every=0)]
    found = all_answers([*tasks, task("rows", "next", values=[1])], log)
    assert found["slow"].rows == [{"value": 0}] and found["slow"].reason == "ended after 0.2 s"
    fast = found["fast"].rows
    assert len(fast) > 1 and fast == [{"value": i} for i in range(len(fast))]
    assert all(answer.ended == "limit" and 0.2 <= answer.seconds < 60 for k, answer in found.items() if k != "next")
    assert found["next"].ended == "done"


def test_rows_without_end_do_not_keep_a_limit_from_being_seen(log, monkeypatch):
    worker, messages = Worker(1, log), iter([("begun", ""), ("row", "{}")])
    worker.task, worker._began = task("hangs", limit=0.0), time.monotonic()
    worker.pipe = SimpleNamespace(poll=lambda: True, recv=lambda: next(messages))
    monkeypatch.setattr(worker, "_cut", lambda: "cut")
    assert worker.left > 60  # what it takes to begin does not count
    assert worker.hear() == "cut"


def test_processes_are_used_again_with_the_threads_they_may_use(log):
    tasks = [task("threads", "0"), task("threads", "1"), task("threads", "2", memory=4.0), task("threads", "3")]
    with closing(answers(tasks, 1, 3, log)) as coming:
        rows = [answer.rows[0] for _, answer in coming]
    assert rows[0]["pid"] == rows[1]["pid"] and len({os.getpid(), *(row["pid"] for row in rows)}) == 4
    assert all(row["threads"] == "3" and row["share"] == 0.5 for row in rows)  # NumPy's numbers are Python's
    ours = resource.getrlimit(resource.RLIMIT_AS)[0]
    assert [row["memory"] for row in rows] == [ours, ours, 4 * 2**30, ours]


def test_a_process_that_died_while_idle_is_replaced(log):
    worker = Worker(1, log)
    try:
        worker.give(task("rows", values=[1]))
        assert heard(worker).rows == [{"value": 1}]
        worker.release()
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.wait()
        worker.give(task("rows", values=[2]))
        assert heard(worker).rows == [{"value": 2}]
        os.kill(worker._process.pid, signal.SIGKILL)
    finally:
        worker.end()
    worker.end()


def heard(worker):
    while not (answer := worker.hear()):
        worker.pipe.poll(1)
    return answer


def test_the_end_of_a_task_without_a_limit_is_slept_for(log, monkeypatch):
    """However long it takes: no look in between that would become a busy loop after some time."""
    timeouts = []
    wait = workers.wait
    monkeypatch.setattr(workers, "wait", lambda pipes, timeout: timeouts.append(timeout) or wait(pipes, timeout))
    found = all_answers([task("rows", values=[1]), task("hangs", limit=0.2)], log)
    assert found["rows"].ended == "done" and found["hangs"].ended == "limit"
    assert all(left <= 0.2 or left > 60 for left in timeouts) and len(timeouts) < 10
    timeouts.clear()
    all_answers([task("rows", values=[1])], log)
    assert set(timeouts) == {None}


@pytest.mark.parametrize("error", [SkippedError, DataError, MissingError])
def test_what_is_missing_is_skipped(error, monkeypatch):
    def missing():
        raise error("not here")
        yield

    monkeypatch.setattr(small_studies, "missing", missing, raising=False)
    ours, theirs = Pipe()
    with ours, theirs:
        assert _end(task("missing"), theirs) == ("skipped", "not here")


def test_no_process_outlives_a_killed_run_and_the_next_one_does_the_rest(tmp_path, capsys, monkeypatch):
    """SIGKILL of the program while one task is done and two are at work, deaf to everything but the kernel."""
    notes = tmp_path / "pids"
    notes.mkdir()
    done = tmp_path / "done.txt"
    tasks = [
        [["one"], "tests.support.small_studies:rows", {"values": [1], "note": str(done)}],
        [["two"], "tests.support.small_studies:hangs", {"note": str(notes)}, 0.3],
        [["three"], "tests.support.small_studies:hangs", {"note": str(notes)}, 0.4],
    ]
    longer = [[*tasks[0]], *([*one[:3], 60] for one in tasks[1:])]
    program = (
        "import sys, json; from pathlib import Path\n"
        "from experiments.reproduce.parts import Parts; from experiments.reproduce.task import Task\n"
        "from experiments.reproduce.workers import answers\n"
        "out, tasks = Path(sys.argv[1]), [Task('small', tuple(key), *rest) for key, *rest in json.loads(sys.argv[2])]\n"
        "with Parts(out).held():\n"
        "    for task, answer in answers(tasks, 2, 1, out / 'log.txt'): Parts(out).keep(task, answer)\n"
    )
    out = tmp_path / "out"
    run = subprocess.Popen([sys.executable, "-c", program, str(out), json.dumps(longer)], cwd=ROOT)
    wait_until(lambda: len(list(notes.iterdir())) == 2)
    with pytest.raises(FolderError, match="another run"), Parts(out).held():
        pass
    run.kill()
    run.wait()
    wait_until(lambda: not any(is_alive(int(one.name)) for one in notes.iterdir()))
    assert [one.name.split("-")[0] for one in (out / "parts" / "small").iterdir()] == ["one"]
    # the arguments of the hanging tasks differ now; finished tasks are not run again
    status, told = command(monkeypatch, capsys, tasks, "reproduce", "small", "--out", out, "--jobs", 2)
    assert status == 0 and "2 of 2 tasks" in told.err and done.read_text().count("\n") == 1
    assert "ended at a limit: small two: ended after 0.3 s" in told.out
    status, told = command(monkeypatch, capsys, tasks, "reproduce", "small", "--out", out)
    assert status == 0 and "tasks" not in told.err


PATIENCE = 120.0  # seconds


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def command(monkeypatch, capsys, tasks, *arguments):
    """The program, here, on the small experiments."""
    monkeypatch.setenv("SMALL_TASKS", json.dumps(tasks))
    capsys.readouterr()
    status = main([str(one) for one in arguments], small_studies.studies)
    return status, capsys.readouterr()


def test_ctrl_c_ends_what_is_at_work_and_says_how_to_go_on(tmp_path):
    notes = tmp_path / "pids"
    notes.mkdir()
    tasks = [[[str(i)], "tests.support.small_studies:hangs", {"note": str(notes)}] for i in range(2)]
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "tests.support.small_studies",
        "reproduce",
        "small",
        "--out",
        str(out),
        "--jobs",
        "2",
    ]
    environment = {**os.environ, "SMALL_TASKS": json.dumps(tasks)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as run:
        try:
            wait_until(lambda: len(list(notes.iterdir())) == 2)
            run.send_signal(signal.SIGINT)
            _, told = run.communicate(timeout=PATIENCE)
        finally:
            run.kill()
    assert run.returncode == 130 and f"run the same command again to resume: finished tasks are in {out}" in told
    assert len(list(notes.iterdir())) == 2 and not any(is_alive(int(one.name)) for one in notes.iterdir())


def test_a_signal_just_before_a_wait_ends_it():
    """Python checks for signals before it waits: one that comes after that check must still be seen."""
    script = """
        import os, signal
        from experiments.reproduce import workers
        signal.signal(signal.SIGUSR1, lambda *_: None)
        with workers._signals() as signals:
            os.kill(os.getpid(), signal.SIGUSR1)
            print(len(workers.wait(signals, timeout=60)))
    """
    with Child(script, cwd=ROOT) as child:
        assert child.ended() == Ended(0, "1\n", "")


# --- what is kept


def test_an_answer_is_that_of_the_same_question_or_none(tmp_path):
    parts = Parts(tmp_path)
    asked = task("rows", values=(1, float("nan")))
    parts.keep(asked, Answer([{"value": float("nan")}], 2.5, "limit", "why"))
    same = parts.answer(task("rows", values=[1, float("nan")]))
    assert repr(same) == repr(Answer([{"value": float("nan")}], 2.5, "limit", "why"))
    for other in (
        task("rows", values=[2]),
        task("rows", values=[1, float("nan")], limit=3.0),
        task("rows", values=[1, float("nan")], memory=3.0),
        task("rows", "other", values=[1, float("nan")]),
        Task("small", ("rows",), "tests.support.small_studies:others", {"values": [1, float("nan")]}),
        Task("large", ("rows",), asked.function, asked.arguments),
    ):
        assert parts.answer(other) is None
    assert parts.answer(task("rows", "rows", values=[1])) is None


def test_names_that_differ_in_odd_letters_are_kept_apart(tmp_path):
    parts = Parts(tmp_path)
    for i, key in enumerate(("a/b", "a b", "a:b", "../a b", "x" * 300, "x" * 301)):
        parts.keep(task("rows", key), Answer([{"value": i}], 0.0))
    assert [parts.answer(task("rows", key)).rows[0]["value"] for key in ("a/b", "a b", "a:b", "../a b")] == [0, 1, 2, 3]
    assert parts.answer(task("rows", "x" * 300)).rows == [{"value": 4}]
    assert len(list((tmp_path / "parts" / "small").iterdir())) == 6


def test_a_broken_part_is_not_taken(tmp_path):
    parts, asked = Parts(tmp_path), task("rows", values=[1])
    parts.keep(asked, Answer([{"value": 1}], 0.0))
    (place,) = (tmp_path / "parts" / "small").iterdir()
    whole = place.read_bytes()
    assert parts.answer(asked)
    for broken in (b"", whole[: len(whole) // 2], b"[]", b"3", b"null", b"\xff\xfe", whole.replace(b"seconds", b"s")):
        place.write_bytes(broken)
        assert parts.answer(asked) is None
    parts.keep(asked, Answer([{"value": 1}], 0.0))
    assert parts.answer(asked)


def test_rows_of_any_columns_are_one_table(tmp_path):
    path = Parts(tmp_path).write_csv("x", [{"a": 1, "b": "u,v"}, {"c": 0.1, "a": None}])
    assert path.read_text() == 'a,b,c\n1,"u,v",\n,,0.1\n'


# --- experiments


class Two(Study):
    """The second task depends on the row of the first."""

    name, title = "small", "Two tasks"

    def tasks(self, scope, rows):
        first = [task("rows", "first", values=[3])]
        return first + [task("rows", "second", values=[row["value"] + 1]) for row in rows if row["value"] == 3]

    def outcome(self, rows, scope):
        return Outcome(f"{[row['value'] for row in rows]}", "")


def test_later_tasks_follow_from_the_rows_of_earlier_ones(tmp_path):
    report = Session(Two(), Scope(Places()), Parts(tmp_path), 2).run()
    assert report.outcome.summary == "[3, 4]" and not report.failed and report.seconds > 0


def test_tasks_of_one_name_are_an_error_not_an_endless_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(Two, "tasks", lambda self, scope, rows: [task("rows", "x", values=[i]) for i in range(2)])
    report = Session(Two(), Scope(Places()), Parts(tmp_path), 2).run()
    assert report.failed == {"small": "ValueError: two tasks of small have the same key"}


def test_trouble_of_one_experiment_leaves_the_others_and_is_told(tmp_path, capsys, monkeypatch):
    """Missing folders, a failing task, an experiment that cannot be drawn; then one alone, the other on its page."""
    ends = "tests.support.small_studies:ends"
    tasks = [[[str(i)], "tests.support.small_studies:rows", {"values": [i]}] for i in range(3)]
    trouble = [*tasks, *([[f"no {i}"], ends, {"how": "skips"}] for i in range(5)), [["bad"], ends, {"how": "raises"}]]
    monkeypatch.setenv("LEVELPROX_DATA", str(tmp_path / "nowhere"))
    out = tmp_path / "out"
    status, told = command(monkeypatch, capsys, trouble, "reproduce", "all", "--out", out, "--dir", tmp_path / "none")
    assert status == 1
    for folder in ("nowhere", "none"):
        assert re.search(f"warning: .*{folder}.* is skipped", told.err)
    summary = told.out[told.out.index("\nSummary") :]
    assert re.search(r"skipped: small no \d, small no \d, small no \d and 2 more: no such program here", summary)
    assert "failed: small bad: ArithmeticError: one over zero" in summary
    assert "failed: broken: ZeroDivisionError: nothing to draw" in summary and "log.txt" in summary
    assert "small                   0 s of work  1 holds" in summary
    assert "nothing to draw" in (out / "log.txt").read_text()
    assert (out / "small.csv").read_text() == "value\n0\n1\n2\n" and (out / "small.png").stat().st_size > 1000
    page = (out / "index.html").read_text()
    assert "one over zero" in page and "and 2 more" in page and "nothing to draw" in page and "no folder" in page

    # skipped and failed ones are tried again; other tasks are shown unchanged
    status, told = command(monkeypatch, capsys, tasks, "reproduce", "broken", "--out", out)
    assert status == 1 and "small " not in told.out[told.out.index("\nSummary") :]
    assert "it is &lt;b&gt;3&lt;/b&gt;" in (out / "index.html").read_text()
    status, told = command(monkeypatch, capsys, tasks, "reproduce", "small", "--out", out)
    assert status == 0 and "tasks" not in told.err


# --- the command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("smal",), "no experiment 'smal'; did you mean small? There are small, broken, and all"),
        (("small", "xyz"), "no experiment 'xyz'. There are small, broken, and all"),
        (("all", "--only", "mnist,real-sin"), "no data set 'real-sin'; did you mean real-sim?"),
    ],
)
def test_what_there_is_not_is_one_line_and_status_2(capsys, monkeypatch, tmp_path, arguments, said):
    status, told = command(monkeypatch, capsys, [], "reproduce", *arguments, "--out", tmp_path / "out")
    assert status == 2 and said in told.err and told.err.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [(), ("reproduce",), ("reproduce", "all", "--jobs", "0"), ("nothing",)])
def test_usage(capsys, arguments):
    with pytest.raises(SystemExit, match="2"):
        main(arguments, small_studies.studies)
    assert "usage:" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    status, told = command(monkeypatch, capsys, [], "reproduce", "small", "--out", tmp_path / "file" / "out")
    assert status == 1 and re.search(r"error: .*file/out cannot be written to: Not a directory", told.err)


def test_the_scope_and_the_folder_follow_from_the_options(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr("experiments.reproduce.run.reproduce", lambda *arguments: asked.append(arguments) or 0)
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "broken", "small"], small_studies.studies) == 0
    assert (
        main(["reproduce", "all", "--quick", "--only", "mnist, gisette,mnist", "--jobs", "3"], small_studies.studies)
        == 0
    )
    assert main(["reproduce", "small", "--repeats", "2"], small_studies.studies) == 0
    (_, names, scope, out, jobs), (studies, every, quick, quick_out, three), twice = asked
    assert twice[2] == Scope(Places(), repeats=2)
    assert names == ["broken", "small"] and scope == Scope(Places()) and out == Path("results/reproduce")
    assert jobs == os.cpu_count() and three == 3 and [one.name for one in studies] == every == ["small", "broken"]
    assert quick == Scope(Places(), True, ("mnist", "gisette")) and quick_out == Path("results/reproduce-quick")


def test_list_and_data(capsys):
    assert main(["list"], small_studies.studies) == 0
    assert "small            A small <experiment>" in capsys.readouterr().out
    assert main(["data", "list"]) == 0
    assert "mnist (generated substitute)" in capsys.readouterr().out


def test_help_does_not_import_what_takes_long():
    lines = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "experiments", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "reproduce" in lines.stdout and "data" in lines.stdout
    assert not re.search(r"numpy|matplotlib|sklearn", lines.stderr)


@pytest.mark.parametrize("quick", [True, False])
def test_every_experiment_is_documented_and_its_tasks_can_be_run_and_found_again(tmp_path, quick):
    from experiments.studies import STUDIES

    documented = (ROOT / "docs" / "reproduce.md").read_text()
    for name, study in STUDIES.items():
        assert study.name == name and f"| `{name}` |" in documented and study.title
        tasks = study.tasks(Scope(Places(), quick), [])
        assert len({one.key for one in tasks}) == len(tasks)
        for one in tasks[:3]:
            assert one.study == name and iter(one.rows())
            Parts(tmp_path).keep(one, Answer([], 0.0))
            assert Parts(tmp_path).answer(one) == Answer([], 0.0)


def test_an_answer_to_another_question_takes_nobodys_place(tmp_path):
    """The same task with fewer rows, or on other data, in the same folder."""
    parts = Parts(tmp_path)
    for values in ([1], [2]):
        parts.keep(task("rows", "same", values=values), Answer([{"value": values[0]}], 0.0))
    assert [parts.answer(task("rows", "same", values=[v])).rows for v in (1, 2)] == [[{"value": 1}], [{"value": 2}]]
    assert parts.answer(task("rows", "same", values=[3])) is None


class Repeated(Study):
    """A task for each repetition, three of them by default."""

    name, title = "repeated", "Repetitions"

    def tasks(self, scope, rows):
        return [task("rows", str(i), values=[i]) for i in range(scope.repeats or 3)]

    def outcome(self, rows, scope):
        return Outcome(" ".join(str(row["value"]) for row in rows), "")


def test_a_run_of_fewer_or_more_repetitions_reports_on_all_there_are(tmp_path):
    for repeats, known, left in ((1, "0", 2), (2, "0 1", 1), (1, "0 1", 1), (4, "0 1 2 3", 0)):
        report = Session(Repeated(), Scope(Places(), repeats=repeats), Parts(tmp_path), 1).run()
        assert (report.outcome.summary, report.left) == (known, left)


class TwoSets(Study):
    """A task for each of two sets."""

    name, title = "two", "Two sets"

    def tasks(self, scope, rows):
        return [task("rows", name, values=[name]) for name in ("a", "b") if not scope.sets or name in scope.sets]

    def outcome(self, rows, scope):
        return Outcome(" ".join(row["value"] for row in rows), "")


def test_a_run_of_one_set_reports_on_the_others_too(tmp_path):
    for name, known, left in (("a", "a", 1), ("b", "a b", 0), ("a", "a b", 0)):
        report = Session(TwoSets(), Scope(Places(), sets=(name,)), Parts(tmp_path), 1).run()
        assert (report.outcome.summary, report.left) == (known, left)
