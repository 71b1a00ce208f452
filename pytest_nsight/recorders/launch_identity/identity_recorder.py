"""The recorder of an identity pass: marks rounds as those of a profiler do, and says what each round launches.

It keeps no times. CUPTI records all the while, as a CUDA graph that was made before would not show its nodes.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain

from pytest_nsight.model.identity import Difference, Identity, LaunchIdentity, compare_launches, make_identity
from pytest_nsight.recorders.cupti.activity import Activity, ActivityRecorder, list_activities
from pytest_nsight.recorders.cupti.cupti_recorder import KINDS
from pytest_nsight.recorders.cupti.library import DRIVER_DOMAIN, RUNTIME_DOMAIN, Cupti, CuptiError
from pytest_nsight.recorders.cupti.record_losses import has_hidden_graph
from pytest_nsight.recorders.launch_identity.code_choice import UnidentifiedError
from pytest_nsight.recorders.launch_identity.launch_arguments import join_rounds
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture
from pytest_nsight.recorders.launch_identity.launch_reader import LaunchReader, ReadLaunch
from pytest_nsight.recorders.machine_code.machine_code import KernelCode

ROUNDS = 2
"""A round that differs from the next one in more than numbers has no identity."""

_KERNELS_AT_ONCE = 24
"""To disassemble: nvdisasm starts as long as it reads about this many kernels."""

_LONGEST_TEXT = 24
"""Values of a struct are longer: its padding, which nothing sets, is often all that differs."""


@dataclass(slots=True)
class _MarkedRange:
    """A range as it was pushed: a round, or a part inside one.

    Attributes:
        name: of it.
        begin_ns: on the clock of the records.
        end_ns: likewise, 0 while it is open.
        first_launch: how many launches had been called before it.
        past_launch: how many had been at its end.
        has_unseen: whether launches were ignored in it.
        parts: inside it, in order.
    """

    name: str
    begin_ns: int
    first_launch: int
    end_ns: int = 0
    past_launch: int = 0
    has_unseen: bool = False
    parts: list[tuple[str, _MarkedRange]] = field(default_factory=list)


class IdentityRecorder:
    """Records what the rounds of a case launch; made before the process uses the device."""

    rounds = ROUNDS

    def __init__(self, cupti: Cupti, capture: LaunchCapture) -> None:
        """Begins to record.

        Raises:
            CuptiError: CUPTI refuses, as where another tool has subscribed.
        """
        self._cupti = cupti
        self._capture = capture
        self._reader = LaunchReader(capture)
        self._recorder = ActivityRecorder(cupti)
        self._activities: list[Activity] = []
        self._lost = 0
        self._open: list[_MarkedRange] = []
        self._ranges: list[_MarkedRange] = []
        self._kept: dict[str, list[list[ReadLaunch]] | str] = {}
        self._unknown: dict[KernelCode, None] = {}
        self._lock = threading.Lock()
        self._pauses = 0
        self._has_ended = False
        capture.start(self._reader.find_layout)
        self._recorder.start(KINDS)
        # Calls after the interpreter's end, those of destructors, must not call back into Python.
        atexit.register(self._end)

    def _end(self) -> None:
        with self._lock:
            self._has_ended = True
            self._capture.stop()
            self._recorder.disable()

    def start(self) -> None:
        """Forgets the ranges before a case; what its set-up has launched stays, as it may be part of a graph."""
        self._ranges.clear()

    def stop(self) -> None:
        """Reads the records of the case; CUPTI goes on recording."""
        dropped = self._recorder.dropped
        found = list_activities(self._recorder.collect(), [(one.begin_ns, one.end_ns) for one in self._ranges])
        self._activities = sorted(found, key=lambda one: one.start_ns)
        self._lost = self._recorder.dropped - dropped

    def push(self, name: str, payload: int) -> None:  # noqa: ARG002 - ranges are found by their names
        """Opens a range."""
        with self._lock:
            begin_ns, first_launch = self._cupti.now_ns(), len(self._capture.launches)
            self._open.append(_MarkedRange(name, begin_ns, first_launch, has_unseen=self._pauses > 0))

    def pop(self) -> None:
        """Closes the last range opened."""
        closed = self._open.pop()
        closed.end_ns, closed.past_launch = self._cupti.now_ns(), len(self._capture.launches)
        if not self._open:
            self._ranges.append(closed)
            return
        path = "/".join([one.name for one in self._open[1:]] + [closed.name])
        self._open[0].parts.append((path, closed))

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Ignores what all threads launch, and delays no launch, until it ends; several may be open at once.

        A round that it touches has no identity.
        """
        self._count_pauses(1)
        try:
            yield
        finally:
            self._count_pauses(-1)

    def _count_pauses(self, more: int) -> None:
        with self._lock:
            was_paused, self._pauses = self._pauses > 0, self._pauses + more
            is_paused = self._pauses > 0
            for one in self._open:
                one.has_unseen = True
            if self._has_ended or is_paused == was_paused:
                return
            if is_paused:
                self._try(self._capture.pause)
                self._try(self._recorder.disable)
            else:
                self._try(self._recorder.resume)
                self._try(self._capture.resume)

    def _try(self, switch: Callable[[], None]) -> None:
        try:
            switch()
        except CuptiError as error:  # It must not end the tuner that is timing.
            self._capture.problems.append(str(error))

    def keep(self, case: str, name: str) -> None:
        """Keeps what the case launches whose rounds have this name."""
        rounds = [one for one in self._ranges if one.name == name][-ROUNDS:]
        try:
            launches = self._read_rounds(rounds)
        except UnidentifiedError as error:
            self._kept[case] = str(error)
        else:
            self._kept[case] = launches
            self._unknown.update(dict.fromkeys(self._reader.find_unknown(chain.from_iterable(launches))))

    def forget(self) -> None:
        """Forgets all records but those of the kept cases."""
        self._capture.launches.clear()
        self._capture.problems.clear()
        self._activities = []

    @property
    def is_due(self) -> bool:
        """Whether the kept cases should be identified: no kernel is to be disassembled for them, or many are."""
        return not self._unknown or len(self._unknown) >= _KERNELS_AT_ONCE

    def identify(self) -> dict[str, Identity]:
        """The identities of the cases kept since the last call."""
        if self._unknown:
            self._reader.disassemble(list(self._unknown))
        found = {
            case: Identity(why_none=kept)
            if isinstance(kept, str)
            else _compare_rounds([self._reader.describe(launches) for launches in kept])
            for case, kept in self._kept.items()
        }
        self._kept.clear()
        self._unknown.clear()
        return found

    def _read_rounds(self, rounds: Sequence[_MarkedRange]) -> list[list[ReadLaunch]]:
        if len(rounds) < ROUNDS:
            raise UnidentifiedError(f"{len(rounds)} of {ROUNDS} rounds came to their end")
        if any(one.has_unseen for one in rounds):
            raise UnidentifiedError("a tuner times its trials in a round, and they are not observed")
        if self._capture.problems:
            raise UnidentifiedError(self._capture.problems[0])
        if self._lost:
            raise UnidentifiedError(f"CUPTI lost {self._lost} records")
        return [self._read_round(one) for one in rounds]

    def _read_round(self, round_: _MarkedRange) -> list[ReadLaunch]:
        calls = [one for one in self._activities if not one.is_on_device]
        calls_ns = {one.correlation: one.start_ns for one in calls}
        # By the call, as the device's clock may be ahead of the host's or behind: by its times a round that ends
        # with a short kernel has lost it, in a VM whose GPU sixteen processes shared.
        own = [
            one
            for one in self._activities
            if one.is_on_device and round_.begin_ns <= calls_ns.get(one.correlation, one.start_ns) < round_.end_ns
        ]
        recorded = {one.correlation for one in self._activities if one.kind == "kernel"}
        launches = list(self._capture.launches.values())
        called = launches[round_.first_launch : round_.past_launch]
        missing = sum(one.correlation not in recorded for one in called)
        if missing:
            raise UnidentifiedError(
                f"{missing} of its {len(called)} launches have no record: another profiler takes CUPTI's records, "
                "or the round captures a CUDA graph"
            )
        present = {one.correlation for one in own}
        if any(one.correlation not in present for one in called):
            raise UnidentifiedError("a launch of it was recorded at a time outside of the round that calls it")
        made = [one for one in calls if round_.begin_ns <= one.start_ns < round_.end_ns]
        if has_hidden_graph(made, [self._call_name(one) for one in made], present):
            raise UnidentifiedError(
                "a CUDA graph of it shows no kernel: it was made where launches are not observed"
            )
        captured = [one for one in launches[: round_.first_launch] if one.correlation not in recorded]

        def find_part(correlation: int) -> str:
            at_ns = calls_ns.get(correlation, 0)
            # The innermost one was closed first.
            return next((path for path, one in round_.parts if one.begin_ns <= at_ns < one.end_ns), "")

        return self._reader.read(own, captured, find_part)

    def _call_name(self, call: Activity) -> str:
        return self._cupti.call_name(RUNTIME_DOMAIN if call.kind == "runtime" else DRIVER_DOMAIN, int(call.name))


def _compare_rounds(rounds: Sequence[Sequence[LaunchIdentity]]) -> Identity:
    """The identity of two rounds; where they differ in numbers among their arguments, it holds both."""
    first, second = rounds
    joined = list(first)
    for difference in compare_launches(first, second):
        both = _hold_both(joined[difference.launch], difference)
        if both is None:
            return Identity(why_none=f"its rounds differ: {_say(difference)}")
        joined[difference.launch] = both
    return make_identity(joined) if joined else Identity(why_none="its rounds launch nothing on a GPU")


def _hold_both(launch: LaunchIdentity, difference: Difference) -> LaunchIdentity | None:
    """A launch with what an argument was in both rounds; None where they differ in another way."""
    what, _, place = difference.what.partition(" ")
    text = join_rounds(difference.before, difference.after) if what == "argument" else None
    if text is None:
        return None
    arguments = list(launch.arguments)
    arguments[int(place)] = text
    return replace(launch, arguments=tuple(arguments))


def _say(difference: Difference) -> str:
    """Where two rounds differ; the values only if they are short enough to read."""
    is_count = difference.launch < 0
    place = f"number of {difference.what}" if is_count else f"{difference.what} of launch {difference.launch + 1}"
    values = (difference.before, difference.after)
    return place if max(map(len, values)) > _LONGEST_TEXT else f"{place} ({values[0]}, then {values[1]})"


def make_identity_recorder() -> IdentityRecorder:
    """The recorder of this process, which has not used the device yet.

    Raises:
        CuptiError: there is no CUPTI or no driver, or CUPTI refuses.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CuptiError(f"no CUDA driver: {error}") from error
    cupti = Cupti()
    return IdentityRecorder(cupti, LaunchCapture(cupti, driver))
