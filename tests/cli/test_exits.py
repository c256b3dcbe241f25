"""Every exit code, provoked: one line on standard error, no traceback, nothing half-written.

Most in this process; those of signals and of streams in a child; those of the program itself in `make test-all`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import levelprox
from levelprox.cli import fit, main
from levelprox.cli._process import Exit
from levelprox.io.checkpoint import CheckpointFile
from tests.support.children import Child

SCRIPT = Path(sys.executable).with_name("levelprox")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)  # what is left in a buffer at the end is what fails then


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """small.csv; slow.npz, two classes that take long to fit; apart.csv, two classes that a line separates."""
    folder = tmp_path_factory.mktemp("exits")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    rows = np.column_stack([X, X[:, 0] + 0.1 * rng.standard_normal(60)])
    lines = [",".join(f"{value!r}" for value in row) for row in rows.tolist()]
    (folder / "small.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    (folder / "apart.csv").write_text("a,b,y\n" + "".join(f"{i},{i % 7},{int(i > 20)}\n" for i in range(40)))
    X = rng.standard_normal((1500, 600))
    noisy = X @ rng.standard_normal(600) + 20 * rng.standard_normal(1500)
    np.savez(folder / "slow.npz", X=X, y=(noisy > 0).astype(int))
    (folder / "directory").mkdir()
    return folder


@pytest.fixture
def ended(folder, capsys, monkeypatch):
    """Exit code, standard output, standard error of a command, in this process."""
    monkeypatch.chdir(folder)

    def ended(*words):
        code = main(words)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return ended


def command(folder, *words, before=""):
    """A command in a child, `before` which some code is run."""
    return Child(f"import os, sys\n{before}\nfrom levelprox.cli import main\nsys.exit(main())", *words, cwd=folder)


def ended_apart(folder, *words, before=""):
    """Exit code, standard output, standard error of a command in a child."""
    with command(folder, *words, before=before) as child:
        found = child.ended()
    assert "Traceback" not in found.stderr
    return found.returncode, found.stdout, found.stderr


def test_0_a_model_is_written_and_holds_what_was_printed(folder, ended):
    """The input has a name with a newline, behind `--`."""
    shutil.copy(folder / "small.csv", folder / "-a\nb.csv")
    words = ("fit", "--features", "1", "--out", "model.levelprox", "-q", "--", "-a\nb.csv")
    code, out, err = ended(*words)
    assert (code, err) == (Exit.OK, "")
    assert "loss  " in out and "-a\\nb.csv: 60 samples" in out
    model = levelprox.load(folder / "model.levelprox")
    assert f"{model.certificate_.psi:.6g}" in out and model.selected_features_.tolist() == [0]


def test_2_unknown_options_and_commands(ended):
    code, out, err = ended("fit", "small.csv", "--features", "1", "--level", "2")
    assert (code, out, err) == (Exit.USAGE, "", "levelprox: error: give --features or --level, not both\n")


def test_3_a_model_that_is_not_to_tolerance_is_written(folder, ended):
    words = ("fit", "small.csv", "--level", "1.5", "--max-iter", "0", "--json", "-q")
    code, out, _ = ended(*words, "--out", "short.levelprox")
    assert code == Exit.INACCURATE and json.loads(out)["status"] == "max_iter"
    assert str(levelprox.load(folder / "short.levelprox").status_) == "max_iter"


def test_4_a_diverging_fit(ended):
    code, out, err = ended("fit", "apart.csv", "--features", "1", "--ridge", "0", "--json")
    assert code == Exit.FAILED and json.loads(out)["status"] == "diverging"
    assert err.splitlines()[-1].startswith("levelprox: warning: ")


def test_65_bad_data_with_control_characters(folder, ended):
    (folder / "bad\x1b[31m.csv").write_text("a,b,y\n1,\x1b[2J,3\n")
    code, out, err = ended("fit", "bad\x1b[31m.csv")
    assert (code, out, err.count("\n")) == (Exit.DATA, "", 1)
    assert "\x1b" not in err and "column 'b' holds text" in err


def test_66_no_such_input_is_found_out_at_once(folder, ended):
    """Also for a name that is no text, and for a link to nowhere."""
    (folder / "link.csv").symlink_to("nowhere")
    for name in (b"nowhere.csv", b"\xff\xfe.csv", b"../nowhere/x.csv", b"link.csv", b"\x1b[31m.csv"):
        code, out, err = ended("fit", os.fsdecode(name))
        assert (code, out, err.count("\n")) == (Exit.NO_INPUT, "", 1)
        assert "no such file or directory" in err and "\x1b" not in err


def test_70_a_bug_leaves_its_traceback_in_a_file(ended, tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "check_files", lambda *paths: 1 / 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, out, err = ended("fit", "small.csv")
    assert (code, out, err.count("\n")) == (Exit.BUG, "", 1)
    (report,) = tmp_path.iterdir()
    assert str(report) in err and "ZeroDivisionError" in report.read_text()


def test_73_nothing_is_overwritten_and_no_directory_made(folder, ended):
    (folder / "there").write_text("mine")
    for out in ("there", "nowhere/model", "directory", "/dev/null"):
        code, _, err = ended("fit", "small.csv", "--out", out)
        assert (code, err.count("\n")) == (Exit.CANNOT_CREATE, 1)
    assert (folder / "there").read_text() == "mine" and not (folder / "nowhere").exists()


@pytest.mark.process
def test_74_a_full_disk_leaves_the_old_file(folder):
    (folder / "kept").mkdir()
    (folder / "kept" / "old").write_text("mine")
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    words = ("fit", "small.csv", "--features", "1", "-q", "--out", "kept/old", "--force")
    code, _, err = ended_apart(folder, *words, before=full)
    assert (code, err) == (Exit.IO, "levelprox: error: kept/old cannot be written: file too large\n")
    assert [path.name for path in (folder / "kept").iterdir()] == ["old"]
    assert (folder / "kept" / "old").read_text() == "mine"
    code, _, err = ended_apart(folder, "--version", before="os.dup2(os.open('/dev/full', os.O_WRONLY), 1)")
    assert code == Exit.IO and "no space left on device" in err


def test_75_another_process_holds_the_checkpoint(folder, ended):
    with CheckpointFile(folder / "held"):
        code, out, err = ended("fit", "small.csv", "--features", "1", "-q", "--checkpoint", "held")
    assert (code, out, err.count("\n")) == (Exit.TRY_AGAIN, "", 1)
    assert f"process {os.getpid()}" in err


def when_it_works(child):
    """Wait until a fit has begun: its progress is shown."""
    while "refits" not in child.stderr():
        assert child.is_alive(), child.stderr()
        time.sleep(0.01)


@pytest.mark.process
def test_130_ctrl_c_keeps_the_best_model(folder):
    words = ("fit", "slow.npz", "--features", "150", "--verbose", "--json", "--out", "cut.levelprox")
    with command(folder, *words) as child:
        when_it_works(child)
        before = child.cpu()
        child.send_signal(signal.SIGINT)
        found = child.ended()
        assert child.seconds() - before < 2
    assert found.returncode == Exit.INTERRUPTED and "Interrupted: " in found.stderr
    assert "Traceback" not in found.stderr
    model, told = levelprox.load(folder / "cut.levelprox"), json.loads(found.stdout)
    assert told["status"] == "interrupted" == str(model.status_)
    assert len(told["features"]) == model.selected_features_.size <= 150


@pytest.mark.process
def test_143_sigterm_keeps_the_state_and_says_how_to_go_on(folder, ended):
    words = ("fit", "slow.npz", "--features", "150", "--verbose", "--checkpoint", "state")
    with command(folder, *words) as child:
        when_it_works(child)
        child.send_signal(signal.SIGTERM)
        found = child.ended()
    assert found.returncode == Exit.TERMINATED and "Traceback" not in found.stderr
    advice = "levelprox: to resume: levelprox fit slow.npz --features 150 --verbose --checkpoint state --resume"
    assert advice in found.stderr and (folder / "state").exists()
    code, _, err = ended("fit", "small.csv", "--features", "150", "-q", "--checkpoint", "state", "--resume")
    assert code == Exit.DATA and "state" in err  # other data


@pytest.mark.process
def test_141_a_closed_output_stream_ends_the_program_quietly(folder):
    for words in (("info", "small.csv", "--json"), ("--help",)):
        closed = "read, write = os.pipe(); os.close(read); os.dup2(write, 1)"
        code, _, err = ended_apart(folder, *words, before=closed)
        assert (code, err) == (Exit.CLOSED, "")


@pytest.mark.process
@pytest.mark.extended  # an interpreter that has imported nothing
def test_help_needs_neither_numpy_nor_scikit_learn():
    script = (
        "import sys; from levelprox.cli import main; code = main(['fit', '--help']); "
        "sys.exit(code or 'numpy' in sys.modules or 'sklearn' in sys.modules)"
    )
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 0.6


def test_without_typer_the_extra_is_named(ended, monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    code, _, err = ended("fit", "small.csv")
    assert (code, err) == (Exit.USAGE, "levelprox: the command line needs typer: pip install 'levelprox[cli]'\n")


# --- the program itself


def started(folder, *words, **environment):
    program = [SCRIPT] if SCRIPT.exists() else [sys.executable, "-m", "levelprox"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*program, *words], cwd=folder, env={**ENVIRONMENT, **environment}, text=True, **pipes)


@pytest.mark.process
@pytest.mark.extended
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fit", "small.csv", "--features", "1", "-q"), Exit.OK),
        (("fit", "small.csv", "--features", "1", "--level", "2"), Exit.USAGE),
        (("fit", "small.csv", "--level", "1.5", "--max-iter", "0", "--json", "-q"), Exit.INACCURATE),
        (("fit", "nowhere.csv"), Exit.NO_INPUT),
        (("--version",), Exit.OK),
    ],
)
def test_the_program_ends_with_the_code(folder, words, code):
    """Nothing but ASCII goes to a stream that takes nothing else."""
    with started(folder, *words, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0") as process:
        out, err = process.communicate()
    assert process.returncode == code and "Traceback" not in err and out.isascii()
    assert "loss  " in out or words[-1] != "-q" or code != Exit.OK


@pytest.mark.process
@pytest.mark.extended
def test_the_program_ends_with_the_signal(folder):
    with started(folder, "fit", "slow.npz", "--features", "150", "--verbose") as process:
        for line in process.stderr:
            if "refits" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == Exit.TERMINATED
