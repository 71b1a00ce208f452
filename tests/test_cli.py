"""The command line `pytest-nsight`: what is common to its commands."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.calibrate.pool import write_pool
from pytest_nsight.cli import _parser, main
from tests.calibrate.pools import Sessions, make_pool


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.json.gz"
    write_pool(path, make_pool(Sessions(runs=5, subjects=3)))
    return path


@pytest.mark.slow
def test_a_reader_that_has_had_enough_gets_no_traceback(pool: Path) -> None:
    """As with `| head -1`, whose pipe is closed before the report is written."""
    command = [sys.executable, "-m", "pytest_nsight.cli", "calibrate", "--resamples", "0", "--from", str(pool)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 128 + 13


@pytest.mark.parametrize(
    ("arguments", "option", "code"),
    [
        (["history", "--baselines=--"], "--baselines", 2),
        (["history", "--html=--", "a"], "--html", 2),
        (["report", "a", "--report=--"], "--report", 2),
        (["compare", "a", "b", "--format=--"], "--format", 2),
        (["calibrate", "--runs=--"], "--runs", 2),
        (["bisect", "a", "b", "-k--"], "-k", 2),
        (["bisect", "a", "b", "-k=--"], "-k", 2),
        (["bisect", "a", "b", "--nsight-band=--"], "--nsight-band", 2),
        (["verify", "a", "--tree=--"], "--tree", 4),
        (["run", "--name=--", "--", "python", "a.py", "--own=--"], "--name", 4),
    ],
)
def test_dashes_as_the_value_of_an_option_are_refused(
    arguments: list[str], option: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code

    assert capsys.readouterr().err == (
        f"pytest-nsight: {option} is --, which stands for the end of the options and is no value; give another, "
        "or leave it out\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--resamples", "-5"], "argument --resamples: '-5' is not a whole number"),
        (["--runs", "0"], "argument --runs: '0' is not a whole number above 0"),
        (["--minutes", "-5"], "argument --minutes: '-5' is not a number above 0"),
        (["--minutes", "nan"], "argument --minutes: 'nan' is not a number above 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["calibrate", *arguments])
    assert sentence in capsys.readouterr().err


def test_a_project_that_is_not_installed_is_found_by_python_m(tmp_path: Path) -> None:
    """As `python -m pytest` finds it: what starts a pytest collects its tests."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "flat_ops.py").write_text("")
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf/test_a.py").write_text("import flat_ops\ndef test_a(): pass\n")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, "-m", "pytest_nsight", "run", "--", "pytest", "--collect-only", "-q"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    assert "perf/test_a.py::test_a" in done.stdout, done.stdout + done.stderr


def test_every_command_says_in_its_help_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    (commands,) = (one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction))

    for name in commands.choices:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        usage, _, rest = capsys.readouterr().out.partition("\n\n")
        assert usage.startswith(f"usage: pytest-nsight {name}")
        assert rest.partition("\n\n")[0].endswith("."), f"{name} --help begins with its arguments"


def test_a_report_for_a_terminal_of_ascii_escapes_what_it_lacks(
    pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr("pytest_nsight.calibrate.command.report", lambda *_, **__: "\N{GREEK SMALL LETTER PHI}")

    assert main(["calibrate", "--from", str(pool)]) == 0

    assert b"\\u03c6" in written.getvalue()


def test_a_pool_that_is_not_there_is_told_without_a_word_of_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "--from", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == (
        f"pytest-nsight: cannot read {tmp_path / 'none'}: no such file or directory; "
        "check the path, or give the file of a pool\n"
    )


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")

    assert main(["calibrate", "--output", str(tmp_path / "file" / "pool")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "choose another place with --output" in err


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may enter every folder")
@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("show", "closed/x.sqlite"), 2, "closed"),
        (("show", "closed"), 2, "closed"),
        (("show", "listed"), 2, "listed"),
        (("show", "session"), 2, "session/run-001"),
        (("compare", "closed/a", "closed/b"), 2, "closed"),
        (("report", "closed/a"), 2, "closed"),
        (("verify", "closed/a"), 4, "closed"),
        (("run", "--", "closed/bench.py"), 4, "closed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_folder_that_one_may_not_enter_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, named: str
) -> None:
    for name, mode in (("closed", 0), ("listed", 0o400), ("session/run-001", 0)):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "trace.sqlite.xz").touch()
        folder.chmod(mode)
    command = [sys.executable, "-m", "pytest_nsight.cli", *arguments]
    # Root is let in everywhere, unless it gives that right away.
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []

    done = subprocess.run([*drop, *command], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "permission denied" in done.stderr.lower()
    assert named in done.stderr


def test_a_closed_or_a_full_output_is_no_traceback() -> None:
    command = f"{sys.executable} -m pytest_nsight.cli model"

    closed = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, check=False)
    full = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, text=True, check=False)

    assert (closed.returncode, closed.stderr) == (0, "")
    assert full.returncode == 2
    assert full.stderr.startswith("pytest-nsight: no space left on device; ")
    assert full.stderr.count("\n") == 1


@pytest.mark.slow
def test_showing_a_small_recording_imports_neither_pandas_nor_scipy_nor_torch() -> None:
    code = (
        "import sys; from pytest_nsight.cli import main; "
        "main(['show', 'tests/data/recordings/h200_nsys_2024_2_3.sqlite.xz']); "
        "print(sorted({'pandas', 'scipy', 'torch', 'pytest'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert "Kernels: " in done.stdout
