"""How a worker process is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOW_OPTIONS = (
    "import os, subprocess, sys\n"
    "from pathlib import Path\n"
    "from pytest_nsight.protocol.worker_start import start_command\n"
    "command = start_command('own', Path('run'))\n"
    "at = command.index('-c')\n"
    "show = 'import os, sys; assert hash(\"a\") == {}; print(sys.warnoptions, sys._xoptions, sys.flags.optimize)'\n"
    "environ = {**os.environ, 'PYTHONHASHSEED': '0'}\n"
    "number = subprocess.check_output([sys.executable, '-c', 'print(hash(\"a\"))'], text=True, env=environ)\n"
    "show = show.replace('{}', number.strip(), 1)\n"
    "print(subprocess.check_output([*command[:at + 1], show], text=True, env=environ))\n"
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "[] {} 0"),
        (("-O",), "[] {} 1"),
        (("-E",), "[] {} 0"),
        (("-W", "error::UserWarning", "-X", "utf8"), "['error::UserWarning'] {'utf8': True} 0"),
    ],
)
def test_a_worker_has_the_options_of_the_interpreter(options: tuple[str, ...], expected: str) -> None:
    command = [sys.executable, *options, "-c", SHOW_OPTIONS]

    assert subprocess.check_output(command, text=True).strip() == expected
