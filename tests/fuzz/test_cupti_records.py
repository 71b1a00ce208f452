"""Records of CUPTI with anything in them: a trace, or one sentence. Never a traceback or a wait."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_nsight.collectors.cupti.packed_trace_reader import read_trace
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import OWN_DOMAIN, Calls, Launches, Ranges, Table, Trace
from pytest_nsight.model.trace_devices import MultiprocessorLimits, TraceDevice
from pytest_nsight.recorders.cupti.packed_trace_writer import write_trace
from tests.fuzz.campaign import fuzz
from tests.fuzz.spoilers import spoil_bytes, spoil_json
from tests.fuzz.test_kept_traces import check

pytestmark = pytest.mark.slow

FILE = "cupti-0001.gz"
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**48, 2**62 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63))


def table(kind: type[Table], **columns: list[int]) -> Table:
    size = len(next(iter(columns.values())))
    return kind(
        **{
            name: np.array(columns.get(name, [0] * size), kind.dtype_of(name))  # type: ignore[arg-type]
            for name in kind.column_names()
        }
    )


SOUND = Trace(
    ranges=table(Ranges, start_ns=[100], end_ns=[900], domain=[1], payload=[1], process=[7], thread=[7]),  # type: ignore[arg-type]
    calls=table(  # type: ignore[arg-type]
        Calls,
        start_ns=[200, 300],
        end_ns=[250, 350],
        name=[2, 2],
        process=[7, 7],
        thread=[7, 7],
        correlation=[5, 6],
    ),
    launches=table(  # type: ignore[arg-type]
        Launches,
        start_ns=[400, 500],
        end_ns=[450, 600],
        shape=[0, 1],
        process=[7, 7],
        correlation=[5, 6],
        bytes_moved=[0, 64],
    ),
    shapes=(
        Shape("kernel", "scale", "scale(float*)", (1, 2, 3), (32, 1, 1), 16, 64),
        Shape("memcpy", "memcpy HtoD", "memcpy HtoD (pinned to device)"),
    ),
    strings=("case", OWN_DOMAIN, "cudaLaunchKernel_v7000"),
    devices=(
        TraceDevice(7, 0, "GPU-1", "NVIDIA H200", 4.8e12, MultiprocessorLimits(64, 32, 65536, 233472, (9, 0))),
    ),
    tool="CUPTI 130500",
    epoch_ns=12,
)


def pack(folder: Path, trace: Trace = SOUND) -> Path:
    write_trace(folder / FILE, trace)
    return folder / FILE


def test_what_is_written_comes_back_as_it_was(tmp_path: Path) -> None:
    found = read_trace(pack(tmp_path))

    for name in ("ranges", "calls", "launches"):
        before, after = getattr(SOUND, name), getattr(found, name)
        for column in before.column_names():
            assert getattr(after, column).dtype == before.dtype_of(column)
            assert getattr(after, column).tolist() == getattr(before, column).tolist(), (name, column)
    for field in ("shapes", "strings", "devices", "tool", "epoch_ns", "damage"):
        assert getattr(found, field) == getattr(SOUND, field)
    assert check(tmp_path)


def fuzz_once(seed: int, folder: Path) -> bool:
    choose = random.Random(seed)
    line, _, columns = gzip.decompress(pack(folder).read_bytes()).partition(b"\n")
    data = bytearray(columns)
    if choose.random() < 0.6:
        line = json.dumps(spoil_json(json.loads(line), choose)).encode("utf-8", "surrogatepass")
    for _ in range(choose.randrange(3)):
        at = choose.randrange(len(data) // 8) * 8
        data[at : at + 8] = choose.choice(EXTREMES).to_bytes(8, "little", signed=True)
    text = line + b"\n" + bytes(data)
    if choose.random() < 0.2:
        text = spoil_bytes(text, choose)
    packed = gzip.compress(text, 1)
    (folder / FILE).write_bytes(spoil_bytes(packed, choose) if choose.random() < 0.1 else packed)
    return check(folder)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_spoiled_record_gives_a_trace_or_one_sentence(seed: int, tmp_path: Path) -> None:
    fuzz_once(seed, tmp_path)


def test_half_of_a_surrogate_pair_in_a_name_is_shown_as_its_number(tmp_path: Path) -> None:
    """pandas refuses a column of such texts where it keeps them in Arrow."""
    found = read_trace(pack(tmp_path, replace(SOUND, strings=("\ud800", *SOUND.strings[1:]))))

    assert found.strings == (r"\ud800", *SOUND.strings[1:])
    assert check(tmp_path)


def test_new_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz(lambda seed: fuzz_once(seed, tmp_path), capsys)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, r"its format is '2', not 1"),
        ({"rows": {"ranges": 2**40, "calls": 0, "launches": 0}}, r"the number of ranges is '1099511627776'"),
        ({"rows": {"ranges": 1, "calls": 1, "launches": 1}}, r"its tables take \d+ bytes, and it has \d+"),
        ({"strings": []}, r"the name of a range is 0"),
        ({"shapes": [["graph", "x", "x", [0] * 3, [0] * 3, 0, 0]] * 2}, r"the kind of a shape is 'graph'"),
        ({"shapes": [["kernel", "x", "x", [0] * 2, [0] * 3, 0, 0]] * 2}, r"a grid has no three numbers"),
        ({"damage": "two\nlines"}, r"damage has characters that cannot be printed"),
    ],
)
def test_a_hostile_header_is_refused_with_what_is_wrong(
    changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    line, _, columns = gzip.decompress(pack(tmp_path).read_bytes()).partition(b"\n")
    header = {**json.loads(line), **changes}
    (tmp_path / FILE).write_bytes(gzip.compress(json.dumps(header).encode() + b"\n" + columns))

    with pytest.raises(TraceError, match=rf"{FILE} is no record of CUPTI \({words}\); record the session again"):
        read_trace(tmp_path / FILE)
