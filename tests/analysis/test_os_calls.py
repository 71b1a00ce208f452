"""What the host did outside of CUDA while devices were idle, on traces of a few lines."""

from __future__ import annotations

from pathlib import Path

from pytest_nsight.analysis.idle_causes import HOST_GAP_NS
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.show.page import View, render
from tests.trace.trace_builder import VINTAGES, TraceBuilder

LONG = 10 * HOST_GAP_NS


def loading() -> TraceBuilder:
    """A kernel, a long time without CUDA, another kernel."""
    return TraceBuilder().launch("a", 10, 100, api_at=0).launch("b", LONG + 50, LONG + 150, api_at=LONG)


def calls_of(builder: TraceBuilder, folder: Path) -> dict[str, int]:
    picture = analyse(read(builder.write(folder / "trace.sqlite")))
    return {one.name: one.total_ns for one in picture.os_calls}


def test_idle_time_of_the_host_is_divided_by_its_calls(tmp_path: Path) -> None:
    """What lies before the gap, inside another call or on another thread counts for nothing."""
    trace = loading().os_call("poll", 1_000, 101_000).os_call("poll", 50, 60).os_call("read", 200_000, 210_000)
    trace.os_call("read", 2_000, 50_000, level=1).os_call("pthread_cond_wait", 0, LONG, thread=7)

    assert calls_of(trace, tmp_path) == {"poll": 100_000, "read": 10_000, "": LONG - 100 - 110_000}


def test_the_thread_is_the_one_that_launches_next(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 100, api_at=0)
    trace.launch("b", LONG + 50, LONG + 150, api_at=LONG, thread=7).os_call("poll", 0, LONG)
    trace.os_call("sem_wait", 100, LONG, thread=7)

    assert calls_of(trace, tmp_path) == {"sem_wait": LONG - 100}


def test_without_such_calls_nothing_is_said(tmp_path: Path) -> None:
    assert calls_of(loading(), tmp_path) == {}


def test_the_page_says_that_a_thread_computes(tmp_path: Path) -> None:
    text = render(read(loading().os_call("poll", 1_000, 101_000).write(tmp_path / "trace.sqlite")), 120, View())

    assert "while devices were idle, by call of the operating system" in text
    assert "no call: the thread computes" in text


def test_a_call_without_a_name_spoils_no_recording(tmp_path: Path) -> None:
    for vintage in VINTAGES:
        trace = TraceBuilder(vintage).launch("a", 10, 100, api_at=0).launch("b", LONG, LONG + 9, api_at=LONG - 9)
        trace.row("OSRT_API", start=200, end=300, eventClass=27, nameId=999, returnValue=0, callchainId=0)
        assert "b" in render(read(trace.write(tmp_path / "trace.sqlite")), 120, View())
