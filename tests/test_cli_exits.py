"""Every exit code, provoked in a process of its own: one line on standard error, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import levelprox
from levelprox.cli.exits import Exit
from levelprox.io.checkpoint import CheckpointFile

SCRIPT = Path(sys.executable).with_name("levelprox")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)  # what is left in a buffer at the end is what fails then


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """small.csv; slow.npz, which takes a minute to fit; apart.csv, two classes that a line separates."""
    folder = tmp_path_factory.mktemp("exits")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    rows = np.column_stack([X, X[:, 0] + 0.1 * rng.standard_normal(60)])
    lines = [",".join(f"{value!r}" for value in row) for row in rows.tolist()]
    (folder / "small.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    (folder / "apart.csv").write_text("a,b,y\n" + "".join(f"{i},{i % 7},{int(i > 20)}\n" for i in range(40)))
    X = rng.standard_normal((1500, 600))
    np.savez(folder / "slow.npz", X=X, y=X @ rng.standard_normal(600))
    (folder / "no_pandas").mkdir()  # which is not needed, and takes long to import
    (folder / "no_pandas" / "pandas.py").write_text("raise ImportError('not needed here')\n")
    return folder


def started(folder, *words, **options):
    environment = {**ENVIRONMENT, "PYTHONPATH": str(folder / "no_pandas"), **options.pop("env", {})}
    command = [SCRIPT if SCRIPT.exists() else sys.executable, *([] if SCRIPT.exists() else ["-m", "levelprox"])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*command, *words], cwd=folder, env=environment, **pipes)


def ended(folder, *words, **options):
    """Exit code, standard output, standard error of a command."""
    with started(folder, *words, **options) as process:
        out, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    return process.returncode, (out or b"").decode(), err.decode()


def test_0_a_model_is_written_and_holds_what_was_printed(folder):
    """C88: no Greek on this stream; C100: a name with a newline, behind `--`."""
    shutil.copy(folder / "small.csv", folder / "-a\nb.csv")
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    words = ("fit", "--features", "1", "--out", "model.levelprox", "-q", "--", "-a\nb.csv")
    code, out, err = ended(folder, *words, env=ascii_only)
    assert (code, err) == (Exit.OK, "")
    assert out.isascii() and "loss psi" in out and "-a\\nb.csv: 60 samples" in out
    model = levelprox.load(folder / "model.levelprox")
    assert f"{model.certificate_.psi:.6g}" in out and model.selected_features_.tolist() == [0]


def test_2_not_understood(folder):
    code, out, err = ended(folder, "fit", "small.csv", "--features", "1", "--level", "2")
    assert (code, out, err) == (Exit.USAGE, "", "levelprox: error: give --features or --level, not both\n")


def test_3_a_model_that_is_not_to_tolerance_is_written(folder):
    words = ("fit", "small.csv", "--level", "1.5", "--max-iter", "0", "--json", "-q")
    code, out, _ = ended(folder, *words, "--out", "short.levelprox")
    assert code == Exit.INACCURATE and json.loads(out)["status"] == "max_iter"
    assert str(levelprox.load(folder / "short.levelprox").status_) == "max_iter"


def test_4_a_diverging_fit(folder):
    code, out, err = ended(folder, "fit", "apart.csv", "--features", "1", "--json")
    assert code == Exit.FAILED and json.loads(out)["status"] == "diverging"
    assert err.splitlines()[-1].startswith("levelprox: warning: ")


def test_65_bad_data_with_control_characters(folder):
    (folder / "bad\x1b[31m.csv").write_text("a,b,y\n1,\x1b[2J,3\n")
    code, out, err = ended(folder, "fit", "bad\x1b[31m.csv")
    assert (code, out, err.count("\n")) == (Exit.DATA, "", 1)
    assert "\x1b" not in err and "column 'b' holds text" in err


def test_66_no_such_input_is_found_out_at_once(folder):
    """C97, C100: also a name that is no text, and a link to nowhere."""
    (folder / "link.csv").symlink_to("nowhere")
    for name in (b"nowhere.csv", b"\xff\xfe.csv", b"../nowhere/x.csv", b"link.csv", b"\x1b[31m.csv"):
        code, out, err = ended(folder, "fit", os.fsdecode(name))
        assert (code, out, err.count("\n")) == (Exit.NO_INPUT, "", 1)
        assert "no such file or directory" in err and "\x1b" not in err


def test_70_a_bug_leaves_its_traceback_in_a_file(folder, tmp_path):
    fault = (
        "import sys; from levelprox.cli import files, main; files.check_input = lambda path: 1 / 0; "
        "sys.exit(main(['fit', 'small.csv']))"
    )
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", fault], cwd=folder, env=environment, capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (Exit.BUG, "", 1)
    (report,) = tmp_path.iterdir()
    assert str(report) in found.stderr and "ZeroDivisionError" in report.read_text()


def test_73_nothing_is_overwritten_and_no_directory_made(folder):
    (folder / "there").write_text("mine")
    for out in ("there", "nowhere/model", "no_pandas", "/dev/null"):
        code, _, err = ended(folder, "fit", "small.csv", "--out", out)
        assert (code, err.count("\n")) == (Exit.CANNOT_CREATE, 1)
    assert (folder / "there").read_text() == "mine" and not (folder / "nowhere").exists()


def test_74_a_full_disk_leaves_the_old_file(folder):
    """C98."""
    (folder / "kept").mkdir()
    (folder / "kept" / "old").write_text("mine")

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    words = ("fit", "small.csv", "--features", "1", "-q", "--out", "kept/old", "--force")
    code, _, err = ended(folder, *words, preexec_fn=full)
    assert (code, err) == (Exit.IO, "levelprox: error: kept/old cannot be written: file too large\n")
    assert [path.name for path in (folder / "kept").iterdir()] == ["old"]
    assert (folder / "kept" / "old").read_text() == "mine"
    with open("/dev/full", "wb") as device:
        code, _, err = ended(folder, "--version", stdout=device)
    assert code == Exit.IO and "no space left on device" in err


def test_75_another_process_holds_the_checkpoint(folder):
    with CheckpointFile(folder / "held"):
        code, out, err = ended(folder, "fit", "small.csv", "--features", "1", "-q", "--checkpoint", "held")
    assert (code, out, err.count("\n")) == (Exit.TRY_AGAIN, "", 1)
    assert f"process {os.getpid()}" in err


def when_it_works(process):
    """Wait until a fit has begun: its progress is shown."""
    for line in process.stderr:
        if b"refits" in line:
            return
    pytest.fail("the fit has ended")


def test_130_ctrl_c_keeps_the_best_model(folder):
    words = ("fit", "slow.npz", "--features", "150", "--verbose", "--json", "--out", "cut.levelprox")
    with started(
        folder, *words, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    ) as process:
        when_it_works(process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        waited = time.monotonic() - began
    assert process.returncode == Exit.INTERRUPTED and b"Interrupted: " in err and b"Traceback" not in err
    assert waited < 5
    model = levelprox.load(folder / "cut.levelprox")
    assert json.loads(out)["status"] == "interrupted" == str(model.status_)
    assert len(json.loads(out)["features"]) == model.selected_features_.size <= 150


def test_143_sigterm_keeps_the_state_and_says_how_to_go_on(folder):
    words = ("fit", "slow.npz", "--features", "150", "--verbose", "--checkpoint", "state")
    with started(folder, *words) as process:
        when_it_works(process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == Exit.TERMINATED and b"Traceback" not in err
    advice = "levelprox: to go on: levelprox fit slow.npz --features 150 --verbose --checkpoint state --resume"
    assert advice in err.decode() and (folder / "state").exists()
    code, _, err = ended(folder, "fit", "small.csv", "--features", "150", "-q", "--checkpoint", "state", "--resume")
    assert code == Exit.DATA and "state" in err  # other data


def test_141_nobody_reads_the_output(folder):
    for words in (("info", "small.csv", "--json"), ("--help",)):
        read, write = os.pipe()
        os.close(read)
        try:
            code, _, err = ended(folder, *words, stdout=write)
        finally:
            os.close(write)
        assert (code, err) == (Exit.CLOSED, "")


def test_help_needs_neither_numpy_nor_scikit_learn(folder):
    script = (
        "import sys; from levelprox.cli import main; code = main(['fit', '--help']); "
        "sys.exit(code or 'numpy' in sys.modules or 'sklearn' in sys.modules)"
    )
    began = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began[1] < 0.6


def test_without_typer_the_extra_is_named(folder, tmp_path):
    (tmp_path / "typer.py").write_text("raise ImportError('no typer', name='typer')\n")
    code, _, err = ended(folder, "fit", "small.csv", env={"PYTHONPATH": str(tmp_path)})
    assert (code, err) == (Exit.USAGE, "levelprox: the command line needs typer: pip install 'levelprox[cli]'\n")
