"""The command line `pytest-nsight`: what is common to its commands."""

from __future__ import annotations

import argparse
import io
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
