"""Baseline files with anything in them: runs, or one sentence. Never a traceback, a wait, or all memory."""

from __future__ import annotations

import copy
import json
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.store import save
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import Subject
from tests.baselines.examples import CASE, run
from tests.fuzz.campaign import fuzz

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data"
FEW = 150
MOST_MEMORY = 600 << 20

SECOND_FORMAT = encode({Subject(CASE): (run(1), run(2)), Subject(CASE, "forward"): (run(1, CASE, "forward"),)})
SEEDS = (SECOND_FORMAT, (DATA / "baselines/first_format.json").read_text(encoding="utf-8"))

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**53 + 1, 2**63, -(2**63), 10**400, "", "x", "\ud800",
    "\x1b[31m", "\n::stop-commands::", "a" * 10_000, [], {}, [[]], [None], {"": None}, {"\udcff": {}}, [0] * 1000,
    "0x0", "100000x0", "999999999x9", "5x5k63:AAAA", "5x5+9223372036854775807k0://///", "span-busy",
    "kernel kernel", "9999-12-31T23:59:59+23:59", "0001-01-01T00:00:00-23:59", "2026-01-01", "20260101T00",
    "1x1k0:", "1x0k0:gA",
)  # fmt: skip


def check(content: bytes | str, folder: Path | None = None) -> bool:
    """Whether the content is a baseline file; if not, the refusal is one printable sentence."""
    try:
        if isinstance(content, str):
            runs = decode(content)
        else:
            assert folder is not None
            path = folder / "perf_tests.test_rms_norm.json"
            path.write_bytes(content)
            runs = read_file(path)
    except BaselineError as error:
        message = str(error)
        if not message.isprintable() or len(message) > 2000:
            pytest.fail(f"the refusal is no sentence: {message[:3000]!r}")
        return False
    # Not the runs: a clock that never changed is not stored round by round.
    assert encode(decode(encode(runs))) == encode(runs), "what was read can be stored again"
    return True


def places(value: object) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    entries = list(value.items()) if isinstance(value, dict) else []
    entries += list(enumerate(value)) if isinstance(value, list) else []
    return [(value, key) for key, _ in entries] + [place for _, inner in entries for place in places(inner)]


def spoil(choose: random.Random, text: str) -> str:
    """The file with some of its values replaced, removed, copied, renamed or moved."""
    file = json.loads(text)
    for _ in range(choose.randint(1, 3)):
        container, key = choose.choice(places(file) or [({}, "x")])
        other, other_key = choose.choice(places(file) or [({"x": 1}, "x")])
        action = choose.randrange(6)
        if action == 0 and key in (container if isinstance(container, dict) else range(len(container))):
            del container[key]
        elif action == 1 and isinstance(container, list):
            container.insert(key, copy.deepcopy(other[other_key]))
        elif action == 2 and isinstance(container, dict):
            container[choose.choice(["", "x", "kernel gap", "\udcff", "__class__"])] = container.get(key)
        elif action == 3:
            container[key] = copy.deepcopy(other[other_key])
        else:
            container[key] = copy.deepcopy(choose.choice(HOSTILE))
    return json.dumps(file)


def garble(choose: random.Random, text: str) -> bytes:
    """The text with some bytes overwritten, removed or repeated."""
    content = bytearray(text.encode())
    for _ in range(choose.randint(1, 5)):
        start = choose.randrange(len(content))
        end = min(len(content), start + choose.choice([1, 1, 1, 2, 30, 1000]))
        action = choose.randrange(4)
        if action == 0 and end - start < len(content):
            del content[start:end]
        elif action == 1:
            content[start:start] = content[start:end] * choose.choice([1, 2, 100])
        elif action == 2:
            content[start] = choose.randrange(256)
        else:
            content[start:end] = bytes(choose.choice(b'0123456789{}[]",:x\\u-+e \n') for _ in range(start, end))
    return bytes(content)


@settings(max_examples=FEW, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(SEEDS))
def test_spoiled_values_are_refused_or_read(choose: random.Random, text: str) -> None:
    check(spoil(choose, text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("garbled")


@settings(max_examples=FEW, deadline=None)
@given(choose=st.randoms(use_true_random=False), text=st.sampled_from(SEEDS))
def test_garbled_bytes_are_refused_or_read(folder: Path, choose: random.Random, text: str) -> None:
    check(garble(choose, text), folder)


@settings(max_examples=FEW, deadline=None)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_refused_or_read(folder: Path, content: bytes) -> None:
    check(content, folder)


@pytest.mark.slow
@pytest.mark.parametrize("text", SEEDS)
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_each_value_in_each_place_is_refused_or_read(text: str, value: object) -> None:
    file = json.loads(text)
    for container, key in places(file):
        kept, container[key] = container[key], value
        check(json.dumps(file))
        container[key] = kept
    assert check(json.dumps(file))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        '{"format": 2, "subjects": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format": ' + "9" * 100_000 + "}",
        '{"format": 2, ' + '"a": 1, ' * 100_000 + '"b": 2}',
        SECOND_FORMAT.replace('"5x0"', '"100000x0"'),
        SECOND_FORMAT.replace('"5x0"', '"5x0k0:' + "A" * 1_000_000 + '"'),
        SECOND_FORMAT.replace('"5x0"', '"100000x0k0:' + "/" * 20_000 + '"'),
    ],
    ids=["deep", "a long number", "many fields twice", "many rounds", "a long code", "a dense code"],
)
def test_a_small_file_takes_little_time_and_memory(text: str) -> None:
    begun = time.process_time()
    tracemalloc.start()
    check(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < MOST_MEMORY
    assert time.process_time() - begun < 20


def fuzz_once(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    text = choose.choice(SEEDS)
    return check(spoil(choose, text)) if choose.random() < 0.5 else check(garble(choose, text), folder)


def test_new_seeds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz(lambda seed: fuzz_once(seed, folder), capsys)


def test_a_file_that_was_read_can_be_saved_into(tmp_path: Path) -> None:
    """The seeds are real files: what the fuzzers spoil is not refused for another reason."""
    path = tmp_path / "model/perf_tests.test_rms_norm.json"
    path.parent.mkdir()
    for text in SEEDS:
        path.write_text(text, encoding="utf-8")
        save(tmp_path, "model", [run(9)])
        assert run(9) in read_file(path)[Subject(CASE)]
