"""Files of sessions, and pools, with anything in them: read, or refused with one sentence, without a traceback.

What is read is used as the program uses it: a session is rendered in every form, a pool is reported on, a manifest
is summarised with its trace, canaries correct a verdict, a profiler's trace is shown.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import lzma
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.store import load
from pytest_nsight.calibrate.calibration_report import report
from pytest_nsight.calibrate.pool import read_pool, write_pool
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.controller.recorded_session import read_recorded_session
from pytest_nsight.controller.trees.tree_evidence import find_changed, read_evidence
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.model.errors import BaselineError, NsightError
from pytest_nsight.model.values import CANARIES, Policy, RunSummary, Subject
from pytest_nsight.protocol.manifest import FILE_NAME
from pytest_nsight.report import terminal
from pytest_nsight.report.registry import REPORTS, find_report
from pytest_nsight.report.session_file import join_sessions, read_session, render
from pytest_nsight.show.page import View
from pytest_nsight.show.page import render as render_page
from pytest_nsight.trace.process_record import summarise_records
from tests.baselines.examples import CASE, run
from tests.calibrate.pools import Sessions, make_pool
from tests.collectors.test_chrome_trace import document
from tests.fuzz.campaign import fuzz
from tests.fuzz.spoilers import spoil_bytes, spoil_json
from tests.judge.runs import judge
from tests.report.canned import full

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data"
LONGEST_S = 30.0
SHARE_OF_BYTES = 0.25

Use = Callable[[Path], object]


def is_used(use: Use, path: Path) -> bool:
    """Whether the file is read and used; if not, the refusal is one printable sentence."""
    began_s = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            use(path)
    except NsightError as error:
        message = str(error)
        assert message.isprintable(), f"the refusal is no sentence: {message[:3000]!r}"
        assert len(message) < 2000 + 3 * len(str(path)), f"the refusal is no sentence: {message[:3000]!r}"
        return False
    finally:
        assert time.process_time() - began_s < LONGEST_S
    return True


def garbled(text: bytes, spoiled: Callable[[], bytes], choose: random.Random) -> bytes:
    """Other values most of the time, else other bytes."""
    return spoil_bytes(text, choose) if choose.random() < SHARE_OF_BYTES else spoiled()


# The result of a session, as `pytest-nsight report` and `compare` read it.

RESULT = json.loads(render(full()))


def use_result(path: Path) -> None:
    result = read_session(path)
    terminal.render(result, 100)
    for name in REPORTS:
        find_report(name).render(result)
    join_sessions([result, full()])


def fuzz_result(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    text = json.dumps(RESULT).encode()
    path = folder / "session.json"
    path.write_bytes(garbled(text, lambda: json.dumps(spoil_json(RESULT, choose)).encode(), choose))
    return is_used(use_result, path)


# A worker's manifest, with the trace that belongs to it.

RECORDED = DATA / "sessions/slow/run-001"


@functools.cache
def manifest_lines() -> tuple[str, ...]:
    """The beginning of a recorded manifest, and its end."""
    lines = (RECORDED / FILE_NAME).read_text(encoding="utf-8").splitlines()
    return (*lines[:60], *lines[-3:])


@functools.cache
def trace_bytes() -> bytes:
    return lzma.decompress(next(RECORDED.glob("*.xz")).read_bytes())


def use_manifest(session: Path) -> None:
    summarise_records(read_recorded_session(session))


def fuzz_manifest(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    own = folder / "run-001"
    own.mkdir(exist_ok=True)
    if not (own / "trace.sqlite").exists():
        (own / "trace.sqlite").write_bytes(trace_bytes())
    events = [json.loads(line) for line in manifest_lines()]

    def spoil() -> bytes:
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(len(events))
            events[at] = spoil_json(events[at], choose, 2)
            if choose.random() < 0.2:
                events.insert(choose.randrange(len(events)), events[at])
        return "".join(json.dumps(event) + "\n" for event in events).encode()

    text = "".join(line + "\n" for line in manifest_lines()).encode()
    (own / FILE_NAME).write_bytes(garbled(text, spoil, choose))
    return is_used(use_manifest, folder)


# A pool of `pytest-nsight calibrate`.


@functools.cache
def pool_text() -> str:
    path = Path(os.environ.get("TMPDIR", "/tmp"), f"pytest-nsight-fuzzed-pool-{os.getpid()}.json.gz")
    try:
        write_pool(path, make_pool(Sessions(runs=8, subjects=2, rounds=5)))
        return gzip.decompress(path.read_bytes()).decode()
    finally:
        path.unlink(missing_ok=True)


def use_pool(path: Path) -> None:
    report(read_pool(path), stored=3, resamples=2, seed=1, width=100)


def fuzz_pool(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    head, _, body = pool_text().partition("\n")

    def spoil() -> bytes:
        parts = [json.loads(head), json.loads(body)]
        at = choose.randrange(2)
        parts[at] = spoil_json(parts[at], choose)
        return "\n".join(map(json.dumps, parts)).encode()

    packed = gzip.compress(garbled(pool_text().encode(), spoil, choose), 1)
    path = folder / "pool.json.gz"
    path.write_bytes(spoil_bytes(packed, choose) if choose.random() < 0.1 else packed)
    return is_used(use_pool, path)


# The stored canaries, which correct the verdicts of all cases.

NAMES = ("copy", "triad", "matmul", "l2", "reduce")
STORED = tuple(run(number) for number in range(5))
NEW = tuple(dataclasses.replace(run(number), session="now") for number in range(100, 104))


@functools.cache
def canary_text() -> str:
    return encode({Subject(f"{CANARIES}::{name}"): canary_runs(name, range(5)) for name in NAMES})


def canary_runs(name: str, numbers: range) -> tuple[RunSummary, ...]:
    return tuple(run(number, f"{CANARIES}::{name}") for number in numbers)


def use_canaries(path: Path) -> None:
    stored = load(path.parents[1], path.parent.name, [CASE]).runs
    canaries = [
        SubjectRuns(
            subject,
            Policy(),
            runs,
            tuple(
                dataclasses.replace(run(number, subject.case, subject.part), session="now")
                for number in range(100, 104)
            ),
        )
        for subject, runs in stored.items()
        if subject.is_canary
    ]
    judge([SubjectRuns(Subject(CASE), Policy(), STORED, NEW)], canaries=canaries)


def fuzz_canaries(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    home = folder / "model"
    home.mkdir(exist_ok=True)
    text = canary_text()
    path = home / f"{CANARIES}.json"
    path.write_bytes(
        garbled(text.encode(), lambda: json.dumps(spoil_json(json.loads(text), choose)).encode(), choose)
    )
    return is_used(use_canaries, path)


# A trace that a user exports from the PyTorch profiler.


def use_chrome_trace(path: Path) -> None:
    render_page(load_trace(path), 100, View())


def fuzz_chrome_trace(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    text = json.dumps(document()).encode()
    path = folder / "trace.json"
    path.write_bytes(garbled(text, lambda: json.dumps(spoil_json(document(), choose, 4)).encode(), choose))
    return is_used(use_chrome_trace, path)


# What a kept session says of its tree, and a tree that it may try to lead out of.

EVIDENCE = {
    "format": 1,
    "commit": "1a2b3c4+",
    "root": "project",
    "cases": ["test_case.py::test_a"],
    "files": {"project/test_case.py": "0" * 64, "src/ops.py": "1" * 64},
    "unseen": {"src/ops.py": "modules that it imports by a computed name"},
    "changed": [],
}


def use_evidence(session: Path) -> None:
    evidence = read_evidence(session)
    evidence.test_files()
    find_changed(evidence, session)


def fuzz_evidence(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    text = json.dumps(EVIDENCE).encode()
    (folder / "evidence.json").write_bytes(
        garbled(text, lambda: json.dumps(spoil_json(EVIDENCE, choose)).encode(), choose)
    )
    return is_used(use_evidence, folder)


CAMPAIGNS: dict[str, Callable[[int, Path], bool]] = {
    "result": fuzz_result,
    "manifest": fuzz_manifest,
    "pool": fuzz_pool,
    "canaries": fuzz_canaries,
    "chrome": fuzz_chrome_trace,
    "evidence": fuzz_evidence,
}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_new_seeds(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz(lambda seed: CAMPAIGNS[name](seed, tmp_path), capsys)


def sound(name: str, folder: Path) -> tuple[Use, Path, bytes]:
    """How a file of this sort is used, where it is, and one that is sound."""
    manifest = "".join(line + "\n" for line in manifest_lines()).encode()
    files: dict[str, tuple[Use, Path, bytes]] = {
        "result": (use_result, folder / "session.json", json.dumps(RESULT).encode()),
        "manifest": (lambda path: use_manifest(path.parents[1]), folder / "run-001" / FILE_NAME, manifest),
        "pool": (use_pool, folder / "pool.json.gz", gzip.compress(pool_text().encode())),
        "canaries": (use_canaries, folder / f"model/{CANARIES}.json", canary_text().encode()),
        "evidence": (
            lambda path: use_evidence(path.parent),
            folder / "evidence.json",
            json.dumps(EVIDENCE).encode(),
        ),
        "chrome": (use_chrome_trace, folder / "trace.json", json.dumps(document()).encode()),
    }
    return files[name]


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_what_is_spoiled_here_is_used_as_it_is(name: str, tmp_path: Path) -> None:
    use, path, content = sound(name, tmp_path)
    path.parent.mkdir(exist_ok=True)
    if name == "manifest":
        (path.parent / "trace.sqlite").write_bytes(trace_bytes())
    path.write_bytes(content)

    assert is_used(use, path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", CAMPAIGNS)
@pytest.mark.parametrize("make", [os.mkfifo, device, Path.mkdir])
def test_only_a_regular_file_is_read(make: Callable[[Path], Any], name: str, tmp_path: Path) -> None:
    use, path, _ = sound(name, tmp_path)
    path.parent.mkdir(exist_ok=True)
    make(path)

    assert not is_used(use, path)


def test_what_campaigns_have_found(tmp_path: Path) -> None:
    """A kernel with -1 registers divided by zero; an interval without end and a duration beyond every float."""
    assert not fuzz_chrome_trace(92730315550425, tmp_path)
    assert fuzz_result(219579636552115, tmp_path)
    assert fuzz_manifest(271936576926875, tmp_path)


def test_a_pool_that_is_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(2**29 + 1), 9))

    with pytest.raises(BaselineError, match="unpacks to more than 512 MiB"):
        read_pool(tmp_path / "bomb.gz")
