"""A program with the same addresses in every process, whose device memory has the size of what it is for."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from pytest_nsight.protocol.worker_start import _FIX_ADDRESSES, fix_addresses, fix_allocator

WHERE = """
import ctypes, sys
rows = open("/proc/self/maps").read().splitlines()
print([row.split()[0] for row in rows if "[stack]" in row or "libc" in row], ctypes.addressof(ctypes.c_int()) >> 30)
print(sys.argv[1:], sys.flags.isolated, "site" in sys.modules)
"""
COMMAND = (sys.executable, "-c", WHERE, "an argument", "--isolated")


def run(command: tuple[str, ...]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_allowed() -> bool:
    """Whether this container lets a process keep its addresses: asked of the kernel, not of what is tested."""
    ask = "import ctypes; print(ctypes.CDLL(None).personality(ctypes.c_ulong(0x0040000)))"
    return int(run((sys.executable, "-c", ask))) != -1


@pytest.mark.slow
def test_addresses_are_the_same_in_every_process() -> None:
    if not is_allowed():
        pytest.skip("this container forbids personality(2)")

    found = {run(fix_addresses(COMMAND)) for _ in range(4)}

    assert len(found) == 1
    assert "['an argument', '--isolated'] 0 True" in found.pop()


def test_the_process_is_that_of_the_program() -> None:
    program = (sys.executable, "-c", "import os; print(os.getpid())")
    with subprocess.Popen(fix_addresses(program), stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0] == f"{process.pid}\n"


def test_where_it_is_forbidden_the_program_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden:
        def personality(self, _: object) -> int:
            return -1

    ran: list[list[str]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Forbidden())
    monkeypatch.setattr(os, "execv", lambda path, command: ran.append([path, *command]))
    monkeypatch.setattr(sys, "argv", ["-c", *COMMAND])

    exec(_FIX_ADDRESSES)

    assert ran == [[sys.executable, *COMMAND]]


def test_other_systems_have_no_such_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")

    assert fix_addresses(COMMAND) == COMMAND


@pytest.mark.parametrize(
    ("newer", "older", "fixed"),
    [
        ("", "", ("", "")),
        ("", "expandable_segments:True", ("", "")),
        (
            "",
            "max_split_size_mb:64, expandable_segments:True,backend:native",
            ("max_split_size_mb:64,backend:native,", "max_split_size_mb:64,backend:native,"),
        ),
        ("max_split_size_mb:64", "backend:native", ("max_split_size_mb:64,", "backend:native,")),
        ("max_split_size_mb:64", "", ("max_split_size_mb:64,", "")),
    ],
)
def test_segments_are_not_expandable_and_other_settings_stay(
    newer: str, older: str, fixed: tuple[str, str]
) -> None:
    """torch reads the older variable where the newer one is not set, or always before 2.9."""
    given = {"PYTORCH_ALLOC_CONF": newer, "PYTORCH_CUDA_ALLOC_CONF": older}

    environ = fix_allocator({"HOME": "/home", **{name: value for name, value in given.items() if value}})

    values = [f"{options}expandable_segments:False" for options in fixed]
    assert environ == {"HOME": "/home", **dict(zip(given, values, strict=True))}
