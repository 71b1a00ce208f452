"""Interrupts a session as Ctrl-C does, while its workers measure."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest


def interrupt_in_case(pytester: pytest.Pytester, arguments: tuple[str, ...], workers: str) -> tuple[int, str]:
    """Runs pytest and interrupts it once two workers are in a case; gives its exit code and output.

    Args:
        pytester: of the test.
        arguments: of pytest.
        workers: a glob of the workers' folders in that of the run.
    """
    command = [sys.executable, "-m", "pytest", "--nsight", *arguments]
    started = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for _ in range(1200):
        found = list((pytester.path / ".nsight").glob(f"2*/run-001/{workers}/manifest.jsonl"))
        if len(found) == 2 and all('"case"' in path.read_text() for path in found):
            break
        time.sleep(0.05)
    else:
        started.kill()
        pytest.fail("the workers did not come to their cases")

    started.send_signal(signal.SIGINT)
    output, _ = started.communicate(timeout=60)
    return started.returncode, output.decode()
