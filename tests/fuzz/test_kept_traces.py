"""Kept traces with anything in them or in their place: a trace, or one sentence. Never a traceback or a wait."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_nsight.collectors.lookup import read_kept_trace
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.errors import NsightError, TraceError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.regular_files import read_bounded, unpack_xz
from pytest_nsight.trace.measures import measure
from tests.fuzz.campaign import fuzz
from tests.fuzz.spoilers import HOSTILE, spoil_bytes, spoil_json

pytestmark = pytest.mark.slow

FEW = 150
LONGEST_S = 20.0

_HOSTILE: tuple[Any, ...] = (
    *HOSTILE, "kernel", "cpu_op", "user_annotation", "cuda_runtime", "gpu_memcpy", "pytest_nsight:",
    "pytest_nsight:x:y", "pytest_nsight:-1:y", "pytest_nsight:99999999999999999999:y", "pytest_nsight:\u0663:y",
    "aten::add", [1, 2, "3"],
)  # fmt: skip

EVENTS: list[dict[str, Any]] = [
    {"cat": "user_annotation", "name": "pytest_nsight:1:case", "ts": 1.5, "dur": 100, "pid": 7, "tid": 7},
    {"cat": "cpu_op", "name": "aten::add", "ts": 2.5, "dur": 10, "pid": 7, "tid": 7, "args": {}},
    {"cat": "cpu_op", "name": "aten::copy_", "ts": 3.5, "dur": 1, "pid": 7, "tid": 7, "args": {}},
    {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 20, "dur": 2, "pid": 7, "tid": 7,
     "args": {"correlation": 5}},
    {"cat": "kernel", "name": "k<float>", "ts": 25, "dur": 2, "pid": 0, "tid": 7,
     "args": {"device": 0, "stream": 7, "correlation": 5, "grid": [1, 1, 1], "block": [32, 1, 1],
              "registers per thread": 32, "shared memory": 0}},
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 30, "dur": 2, "pid": 0, "tid": 7,
     "args": {"device": 0, "stream": 7, "correlation": 6, "bytes": 1024}},
]  # fmt: skip


def check(path: Path, read: Callable[[Path], Trace] = read_kept_trace) -> bool:
    """Whether a folder holds a trace, or a file is one; if not, the refusal is one printable sentence."""
    began_s = time.monotonic()
    try:
        measure(read(path))
    except NsightError as error:
        message = str(error)
        if not message.isprintable() or len(message) > 2000:
            pytest.fail(f"the refusal is no sentence: {message[:3000]!r}")
        return False
    finally:
        assert time.monotonic() - began_s < LONGEST_S
    return True


def fuzz_once(seed: int, folder: Path) -> bool:
    generator = random.Random(seed)
    events = spoil_json(EVENTS, generator, 4, _HOSTILE) if generator.random() < 0.7 else EVENTS
    text = json.dumps(events).encode()
    if generator.random() < 0.3:
        text = spoil_bytes(text, generator)
    packed = gzip.compress(text, 1)
    if generator.random() < 0.2:
        packed = spoil_bytes(packed, generator)
    (folder / "trace-0001.json.gz").write_bytes(packed)
    # The same as a file that a user names.
    check(folder / "trace-0001.json.gz", load_trace)
    return check(folder)


def test_what_is_spoiled_here_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "trace-0001.json.gz").write_bytes(gzip.compress(json.dumps(EVENTS).encode()))

    assert check(tmp_path)


@pytest.mark.slow
@settings(max_examples=FEW, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_spoiled_chrome_trace_gives_a_trace_or_one_sentence(seed: int, tmp_path: Path) -> None:
    fuzz_once(seed, tmp_path)


def test_new_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz(lambda seed: fuzz_once(seed, tmp_path), capsys)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), seed=st.integers(0, 2**32))
def test_a_spoiled_archive_gives_a_trace_or_one_sentence(data: bytes, seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    (tmp_path / "trace.sqlite.xz").write_bytes(
        generator.choice([data, spoil_bytes(lzma.compress(data), generator)])
    )

    assert not check(tmp_path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    """A socket, with a name short enough for one."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def link_outside(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_text("planted line")
    path.symlink_to(outside)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("name", ["trace.sqlite", "trace.sqlite.xz", "trace-0001.json.gz", "cupti-0001.gz"])
@pytest.mark.parametrize("make", [os.mkfifo, device, listening, Path.mkdir, link_outside, dangling, circle])
def test_only_a_regular_file_of_the_folder_is_read(make: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    run = tmp_path / "run-001"
    run.mkdir()
    make(run / name)

    with pytest.raises(TraceError, match=rf"{name} is (a|something).*, not a regular file") as caught:
        read_kept_trace(run)

    assert "planted" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".sqlite", ".sqlite.xz", ".json", ".json.gz"])
@pytest.mark.parametrize("make", [os.mkfifo, device, listening])
def test_a_recording_that_a_user_names_is_a_regular_file(
    make: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    make(tmp_path / f"r{suffix}")

    with pytest.raises(TraceError, match="not a regular file"):
        load_trace(tmp_path / f"r{suffix}")


def test_a_log_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "worker.log")
    (tmp_path / "trace.sqlite.xz").write_bytes(b"none")

    assert not check(tmp_path)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with lzma.open(tmp_path / "bomb.xz", "wb", preset=1) as file:
        for _ in range(64):
            file.write(bytes(2**20))
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(2**26), 9))
    assert (tmp_path / "bomb.xz").stat().st_size < 2**20

    with pytest.raises(TraceError, match=r"bomb.xz unpacks to more than 0.0 GB"):
        unpack_xz(tmp_path / "bomb.xz", tmp_path / "unpacked", 2**24)
    with pytest.raises(TraceError, match=r"bomb.gz unpacks to more than 0.0 GB"):
        read_bounded(tmp_path / "bomb.gz", 2**24)

    assert not (tmp_path / "unpacked").exists()
