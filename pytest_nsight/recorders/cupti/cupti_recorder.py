"""Records each case through CUPTI, inside the worker, and writes one file for it."""

from __future__ import annotations

import atexit
import os
import threading
import time
from ctypes import c_int
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pytest_nsight.model.trace import OWN_DOMAIN, Ranges, Trace
from pytest_nsight.recorders.cupti.activity import BUFFER_BYTES, ActivityRecorder
from pytest_nsight.recorders.cupti.boards import read_boards
from pytest_nsight.recorders.cupti.library import Cupti, CuptiError
from pytest_nsight.recorders.cupti.packed_trace_writer import write_trace
from pytest_nsight.recorders.cupti.record_layouts import CONCURRENT_KERNEL, COPY, DRIVER, PEER_COPY, RUNTIME, SET
from pytest_nsight.recorders.cupti.record_losses import drop_nested, find_loss
from pytest_nsight.recorders.cupti.recorded_tables import RecordedTables

KINDS = (CONCURRENT_KERNEL, COPY, PEER_COPY, SET, RUNTIME, DRIVER)
_FULL = BUFFER_BYTES // 4
_THREAD_ID_OF_SYSTEM = 1


class _OpenRange(NamedTuple):
    name: str
    payload: int
    start_ns: int


class _ClosedRange(NamedTuple):
    start_ns: int
    end_ns: int
    name: str
    payload: int
    thread: int
    is_round: bool


class CuptiRecorder:
    """Records each case and writes one file for it, `cupti-<n>.gz`.

    CUPTI is attached as soon as this is made, before the program uses the device: of a CUDA graph that was
    instantiated earlier it need not see the nodes.
    """

    def __init__(self, folder: Path) -> None:
        """Attaches CUPTI.

        Raises:
            CuptiError: there is none, or it refuses.
        """
        self._folder = folder
        self._cupti = Cupti()
        self._cupti.call("cuptiSetThreadIdType", c_int(_THREAD_ID_OF_SYSTEM))
        self._activity = ActivityRecorder(self._cupti)
        self._activity.is_discarding = True
        self._activity.start(KINDS)
        # Calls after the interpreter's end, those of destructors, must not ask Python for a buffer.
        atexit.register(self._activity.disable)
        self._tables: RecordedTables | None = None
        self._failure = ""
        self._depth = 0
        self._open: list[_OpenRange] = []
        self._closed: list[_ClosedRange] = []
        self._written = 0
        self._rounds = 0
        self._rounds_at_once = 1

    def start(self) -> None:
        """Begins to keep records.

        Raises:
            CuptiError: CUPTI refuses.
        """
        self._activity.start(KINDS)
        self._activity.is_discarding = False
        self._tables = RecordedTables(self._cupti)
        self._closed.clear()
        self._failure, self._depth = "", len(self._open)
        self._rounds, self._rounds_at_once = 0, 1

    def stop(self) -> None:
        """Writes what was recorded since `start`."""
        tables = self._tables
        assert tables is not None, "start() comes first"
        self._collect(tables)
        self._activity.is_discarding = True
        self._tables = None
        trace = self._to_trace(tables)
        self._written += 1
        write_trace(self._folder / f"cupti-{self._written:04}.gz", trace)

    def push(self, name: str, payload: int) -> None:
        """Opens a range."""
        self._open.append(_OpenRange(name, payload, self._cupti.now_ns()))

    def pop(self) -> None:
        """Closes the range opened last; after a round, may collect what CUPTI has recorded."""
        end_ns = self._cupti.now_ns()
        opened = self._open.pop()
        is_round = len(self._open) == self._depth
        if self._tables is None:
            return
        self._closed.append(
            _ClosedRange(opened.start_ns, end_ns, opened.name, opened.payload, threading.get_native_id(), is_round)
        )
        if is_round:
            self._rounds += 1
            if self._rounds >= self._rounds_at_once:
                self._collect(self._tables)

    def _collect(self, tables: RecordedTables) -> None:
        """Takes the records over, and finds out after how many rounds they have to be taken over again.

        An error stays in the record: raised, it would hide what the test itself may be raising.
        """
        before = self._activity.collected_bytes
        try:
            tables.add(self._activity.collect())
        except CuptiError as error:
            self._failure = self._failure or f"its records cannot be collected: {error}; measure it again"
        per_round = (self._activity.collected_bytes - before) // max(self._rounds, 1)
        self._rounds_at_once = max(1, _FULL // max(per_round, 1))
        self._rounds = 0

    def _to_trace(self, tables: RecordedTables) -> Trace:
        process = os.getpid()
        ranges = self._to_ranges(tables, process)
        calls, failed, launches = drop_nested(*tables.calls(process), tables.launches(process))
        is_round = np.array([one.is_round for one in self._closed], np.bool_)
        damage = self._failure or find_loss(
            ranges.take(is_round), calls, failed, launches, tables.strings, self._activity.dropped
        )
        return Trace(
            ranges=ranges,
            calls=replace(calls, correlation=np.where(failed, 0, calls.correlation)),
            launches=launches,
            shapes=tables.shapes,
            strings=tables.strings,
            devices=read_boards(process),
            damage=damage,
            tool=f"CUPTI {self._cupti.version()}",
            epoch_ns=time.time_ns() - self._cupti.now_ns(),
        )

    def _to_ranges(self, tables: RecordedTables, process: int) -> Ranges:
        size = len(self._closed)
        domain = tables.number_of(OWN_DOMAIN)
        return Ranges(
            start_ns=np.array([one.start_ns for one in self._closed], np.int64),
            end_ns=np.array([one.end_ns for one in self._closed], np.int64),
            name=np.array([tables.number_of(one.name) for one in self._closed], np.int32),
            domain=np.full(size, domain, np.int32),
            payload=np.array([one.payload for one in self._closed], np.int64),
            process=np.full(size, process, np.int64),
            thread=np.array([one.thread for one in self._closed], np.int64),
            is_open=np.zeros(size, np.bool_),
        )
