"""Sentences on worker processes that ended before their time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_nsight.controller.workers.worker_failure import describe_crash
from pytest_nsight.protocol.manifest_reader import read_manifest

TRACEBACK = """\
test_case.py .
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/_pytest/main.py", line 368, in wrap_session
  File "/usr/lib/python3.11/pathlib.py", line 1044, in open
    return io.open(self, mode)
           ^^^^^^^^^^^^^^^^^^^
"""
ERROR = "OSError: [Errno 24] Too many open files: 'a.py'"
AT_EXIT = """\
nanobind: leaked 4 instances!
 - leaked instance 0x7f2e771a1728 of type "triton._C.libtriton.ir.attribute"
nanobind: this is likely caused by a reference counting issue in the binding code.
See https://nanobind.readthedocs.io/en/latest/refleaks.html
"""


def sentence(folder: Path, log: str, code: int) -> str:
    (folder / "worker.log").write_text(log)
    head = {"event": "run", "format": 1, "run": "s/001", "session": "s", "recorded": "", "commit": "", "pid": 1}
    case = {"event": "case", "case": "test_case.py::test_bad"}
    (folder / "manifest.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(case)}\n")
    return describe_crash(read_manifest(folder / "manifest.jsonl"), code, folder / "worker.log")


@pytest.mark.parametrize("after", ["", "\n\n", AT_EXIT])
@pytest.mark.parametrize("error", [ERROR, "package.errors.Gone", "Gone: a reason"])
def test_an_exception_that_ended_the_process_is_quoted(tmp_path: Path, error: str, after: str) -> None:
    assert sentence(tmp_path, f"{TRACEBACK}{error}\n{after}", 1) == (
        f"the worker process ended with exit code 1 before its time while test_case.py::test_bad ran: {error}; "
        f"its output is in {tmp_path}/worker.log"
    )


@pytest.mark.parametrize(
    ("log", "code", "cause"),
    [
        ("", 3, "ended with exit code 3 before its time"),
        ("collected 1 item\n\ntest_case.py .", 3, "ended with exit code 3 before its time"),
        ("E       assert 1 == 2\n\ntest_case.py:3: AssertionError\n", 1, "ended with exit code 1 before its time"),
        ("  indented\nprinted: by the test\n", 1, "ended with exit code 1 before its time"),
        (f"{TRACEBACK}KeyboardInterrupt\n", 2, "was ended by KeyboardInterrupt"),
        (f"{TRACEBACK}{ERROR}\n", -9, "died with SIGKILL"),
    ],
)
def test_nothing_else_of_the_log_is_taken_for_a_reason(tmp_path: Path, log: str, code: int, cause: str) -> None:
    assert sentence(tmp_path, log, code) == (
        f"the worker process {cause} while test_case.py::test_bad ran; its output is in {tmp_path}/worker.log"
    )


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    assert "x" * 200 not in sentence(tmp_path, f"{TRACEBACK}ValueError: {'x' * 999}\n", 1)
