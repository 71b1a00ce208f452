"""The calls of a script that count as cases: which ones do, what each is called, and what one consists of.

A call counts if the script makes it. Calls that a library makes itself, for example in its autotuner, go to the
library's own function. So do calls inside of a call.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from os import getpid
from pathlib import PurePath
from types import FrameType
from typing import Any, TypeVar

from pytest_nsight.protocol.other_checkouts import INSTALLED
from pytest_nsight.protocol.script import clean_name

T = TypeVar("T")

LIBRARIES = frozenset(("triton", "torch", "flashinfer", "tilelang"))
"""Top-level packages whose own calls do not count."""

_DECORATORS = frozenset(("contextlib", "torch.amp.autocast_mode", "torch.utils._contextlib"))
"""Modules whose functions only call what they decorate: `torch.no_grad()(do_bench)` is called by the script."""

_OWN = "pytest_nsight"
_MAIN = "__main__"
_MODULE_LEVEL = "module"
_QUICK_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Call:
    """What a script passed to a benchmarking function.

    Attributes:
        body: what a round runs.
        original: calls the library's own function with the script's arguments.
        value: host durations of rounds in ms -> what the library's function would return, which works on a GPU
            only; None if it works everywhere.
        setup: called before each round, outside of it.
        cold_cache: whether the library's function empties the cache before each repetition.
        context: entered around all rounds.
        label: what the script itself calls it, "" if it does not.
    """

    body: Callable[[], object]
    original: Callable[[], Any]
    value: Callable[[list[float]], Any] | None = None
    setup: Callable[[], None] | None = None
    cold_cache: bool = True
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    label: str = ""


def find_value(call: Call, *, has_gpu: bool) -> Any:
    """The value of a call that is not measured: the library's own value, if the library works on this machine."""
    if has_gpu or call.value is None:
        return call.original()
    return call.value(_time_rounds(call))


def _time_rounds(call: Call) -> list[float]:
    """Durations of a few rounds on the host, in ms, after one to warm up."""
    durations = []
    with call.context():
        for _ in range(1 + _QUICK_ROUNDS):
            if call.setup is not None:
                call.setup()
            start_ns = time.perf_counter_ns()
            call.body()
            durations.append((time.perf_counter_ns() - start_ns) / 1e6)
    return durations[1:]


class CallRouter:
    """Sends the calls that count to one handler, each with its name, and lets the others pass.

    Attributes:
        unmeasured: sentences on calls that count and cannot be measured, each once.
    """

    def __init__(self, handle: Callable[[str, Call], Any]) -> None:
        self._handle = handle
        self._pid = getpid()
        self._thread = threading.get_ident()
        self._is_inside = False
        self._has_ended = False
        self._label = ""
        self._trusted = ""
        self._counts: dict[str, int] = {}
        self._used: set[str] = set()
        self._unmeasured: dict[str, None] = {}

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Sentences on calls that count and cannot be measured, each once."""
        return tuple(self._unmeasured)

    def end(self) -> None:
        """Counts no call any more: the script has come to its end, and what follows are its exit handlers."""
        self._has_ended = True

    def route(self, original: Callable[[], T], describe: Callable[[], Call]) -> T:
        """Has a call handled, or lets it pass.

        Args:
            original: the library's own function with the script's arguments.
            describe: what the call consists of.
        """
        caller = _find_caller()
        if not self._counts_call(caller):
            return original()
        call = describe()
        self._is_inside = True
        try:
            value: T = self._handle(
                self._next_name(self._label or clean_name(call.label) or find_site(caller)), call
            )
            return value
        finally:
            self._is_inside = False

    def refuse(self, original: Callable[[], T], sentence: str) -> T:
        """Lets a call pass that cannot be measured, and keeps the reason if it counts."""
        if self._counts_call(_find_caller()):
            self._unmeasured[sentence] = None
        return original()

    @contextmanager
    def labelled(self, label: str) -> Iterator[None]:
        """Names the calls inside after the script's arguments, if they say more than the place of the call."""
        before, self._label = self._label, clean_name(label)
        try:
            yield
        finally:
            self._label = before

    def within(self, module: str, function: Callable[[], T]) -> T:
        """Calls a library's function. Its inner call, made by `module`, is the script's if this call is."""
        caller = _find_caller()
        if not self._counts_call(caller):
            return function()
        before, self._trusted = self._trusted, module
        try:
            with self.labelled(self._label or find_site(caller)):
                return function()
        finally:
            self._trusted = before

    def _counts_call(self, caller: FrameType | None) -> bool:
        # A forked child has a copy of the handler, whose results reach nobody.
        if getpid() != self._pid:
            return False
        if _is_librarys(caller) and _module_of(caller) != self._trusted:
            return False
        # The first thread may be inside of a call meanwhile, so this comes first.
        if threading.get_ident() != self._thread:
            self._unmeasured["calls on other threads than the script's first one are not measured"] = None
            return False
        if self._has_ended:
            self._unmeasured["calls of exit handlers, after the script's last line, are not measured"] = None
            return False
        return not self._is_inside

    def _next_name(self, base: str) -> str:
        """The name of the next call; a label of the script may look like a name that was made here."""
        # What stands in brackets stays at the end, as in the ids of parametrized tests.
        name, bracket, rest = base.partition("[")
        found, number = base, self._counts.get(base, 1)
        while found in self._used:
            number += 1
            found = f"{name}#{number}{bracket}{rest}"
        self._counts[base] = number
        self._used.add(found)
        return found


def _find_caller() -> FrameType | None:
    """The innermost frame that is neither this package's nor a decorator's."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to a caller's frame
    while frame is not None and (_module_of(frame).partition(".")[0] == _OWN or _module_of(frame) in _DECORATORS):
        frame = frame.f_back
    return frame


def _is_librarys(frame: FrameType | None) -> bool:
    """Whether the frame belongs to a library whose own calls do not count."""
    module = _module_of(frame)
    if module.partition(".")[0] in LIBRARIES:
        return True
    # Other installed packages bring autotuners of their own, whose calls depend on what is cached.
    return frame is not None and "autotun" in module and _is_installed(frame)


def _is_installed(frame: FrameType) -> bool:
    """Whether the frame's code was installed as a package, and does not lie beside the script."""
    return not INSTALLED.isdisjoint(PurePath(frame.f_code.co_filename).parts)


def _module_of(frame: FrameType | None) -> str:
    return str(frame.f_globals.get("__name__", "")) if frame is not None else ""


def find_site(frame: FrameType | None) -> str:
    """The function that a call is made in, a name that stays when lines move.

    The script's own function comes first, for helpers of other files are shared by many calls; then the helper.
    """
    helper = ""
    while frame is not None:
        module, function = _module_of(frame), frame.f_code.co_name
        if (module, function) == (_MAIN, "<module>"):
            # Frames farther out belong to the code that runs the script.
            break
        is_named = not function.startswith("<") and module.partition(".")[0] not in {*LIBRARIES, _OWN}
        if is_named and module == _MAIN:
            return clean_name(function)
        if is_named and not helper and _is_users(frame):
            helper = f"{module.rpartition('.')[2]}.{function}"
        frame = frame.f_back
    return clean_name(helper) or _MODULE_LEVEL


def _is_users(frame: FrameType) -> bool:
    """Whether a frame is neither of the standard library nor of an importer."""
    module = _module_of(frame).partition(".")[0]
    return module not in sys.stdlib_module_names
