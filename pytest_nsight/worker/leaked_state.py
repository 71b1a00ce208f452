"""What one test leaves behind for the next in the process: found after each case, put back, and recorded.

A fixture of a wider scope than one function may change state for many tests. What its setup changes is therefore
the state that later cases begin with, until its teardown.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

import pytest

from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import LeakedState
from pytest_nsight.worker.compiled_code import CompiledCode
from pytest_nsight.worker.import_variables import ImportVariables
from pytest_nsight.worker.left_threads import LeftThreads
from pytest_nsight.worker.process_settings import ABSENT, Setting, list_settings

_VARIABLE = "environment variable "
_ALARM, _ALARM_HANDLER = "pending alarm", "signal handler SIGALRM"

# pytest, CUDA, the compilers and torch.profiler set these themselves, each time or at their first use.
_OWN_VARIABLES = frozenset(
    (
        "PYTEST_CURRENT_TEST",
        "PYTEST_VERSION",
        "CUDA_MODULE_LOADING",
        "DISABLE_CUPTI_LAZY_REINIT",
        "KINETO_LOG_LEVEL",
        "KMP_DUPLICATE_LIB_OK",
        "KMP_INIT_AT_FORK",
        "TEARDOWN_CUPTI",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_WARM_POOL",
        "TRITON_CACHE_DIR",
        "TRITON_LIBDEVICE_PATH",
        "TRITON_PTXAS_PATH",
        "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    )
)


class StateReader:
    """Reads and writes the state of the process by name: `default dtype`, `environment variable HOME`."""

    def __init__(self) -> None:
        self._settings: dict[str, Setting] = {}

    def read(self) -> dict[str, object]:
        """All that can be read now; torch's settings only once a test has imported torch."""
        self._settings = {setting.name: setting for setting in list_settings()}
        state: dict[str, object] = {
            _VARIABLE + name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES
        }
        for name, number in _SIGNALS.items():
            state[name] = signal.getsignal(number)
        with warnings.catch_warnings():
            # Reading a deprecated setting is not the test's doing.
            warnings.simplefilter("ignore")
            state |= {name: setting.read_or_absent() for name, setting in self._settings.items()}
        return state

    def initial(self, name: str) -> object:
        """What a setting is before anybody changes it, ABSENT where that depends on the machine."""
        return self._settings[name].initial if name in self._settings else ABSENT

    def is_reported(self, name: str) -> bool:
        """Whether a change is worth a note; random generators are not, because nearly every test advances them."""
        return name not in self._settings or self._settings[name].is_reported

    def is_known(self, name: str) -> bool:
        """Whether it can be read now; a test may have taken the library that has it out of sys.modules."""
        return name.startswith(_VARIABLE) or name in _SIGNALS or name in self._settings

    def write(self, name: str, value: object) -> bool:
        """Puts one value back; returns whether that succeeded."""
        try:
            if name.startswith(_VARIABLE):
                _write_variable(name.removeprefix(_VARIABLE), value)
            elif name in _SIGNALS:
                return _write_handler(_SIGNALS[name], value)
            elif name in self._settings and value is not ABSENT:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._settings[name].write(value)
        except (OSError, RuntimeError, TypeError, ValueError, AttributeError):
            return False
        return True


_SIGNALS = {
    f"signal handler {number.name}": number
    for number in signal.Signals
    if number not in (signal.SIGKILL, signal.SIGSTOP)
}


def _write_variable(name: str, value: object) -> None:
    if value is ABSENT:
        os.environ.pop(name, None)
    else:
        os.environ[name] = str(value)


def _write_handler(number: signal.Signals, value: object) -> bool:
    if value is None or threading.current_thread() is not threading.main_thread():
        # Python cannot restore a handler that it did not install.
        return False
    signal.signal(number, value)  # type: ignore[arg-type]
    return True


def find_changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Names of what differs: first in the order of `after`, then the names that `after` lacks."""
    names = dict.fromkeys((*after, *before))
    return tuple(name for name in names if before.get(name, ABSENT) != after.get(name, ABSENT))


class LeakedStatePlugin:
    """Puts state back after each case, and records what a case had left changed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._reader = StateReader()
        self._expected: dict[str, object] = {}
        # Fixture -> what its setup changed, and the values before.
        self._by_fixture: dict[int, dict[str, object]] = {}
        self._threads = LeftThreads()
        self._compiled_code = CompiledCode()
        self._of_imports = ImportVariables()
        self._is_last = False

    def pytest_configure(self) -> None:
        """Begins to note which variables imports set."""
        self._of_imports.watch()

    def pytest_unconfigure(self) -> None:
        """Ends that."""
        self._of_imports.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Compares the state before a case's first setup with the state after its last teardown."""
        self._is_last = nextitem is None
        self._compiled_code.forget()
        # Read again for each case: other plugins may set values around a case, such as its time limit.
        self._expected = self._reader.read()
        self._threads.begin()
        self._of_imports.forget()
        modules = len(sys.modules)
        result = yield
        changed = self._put_back(has_imported=len(sys.modules) > modules)
        changed |= dict.fromkeys(self._threads.find(), False)
        names = tuple(dict.fromkeys(name for name in changed if self._reader.is_reported(name)))
        if names:
            stuck = tuple(name for name in names if not changed[name])
            self._journal.write("leaked_state", **asdict(LeakedState(item.nodeid, names, stuck)))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Takes over what a fixture of a wider scope changes."""
        if fixturedef.scope == "function":
            return (yield)
        fixture = id(fixturedef)
        with self._taken_over(fixture), self._threads.taken_over(), self._compiled_code.taken_over(fixture):
            return (yield)

    @contextmanager
    def _taken_over(self, fixture: int) -> Iterator[None]:
        before = self._reader.read()
        try:
            yield
        finally:
            after = self._reader.read()
            # What a fixture inside this one changed is expected by now, and is undone with that one.
            own = {
                name: before.get(name, ABSENT)
                for name in find_changes(before, after)
                if self._expected.get(name, ABSENT) != after.get(name, ABSENT)
            }
            self._by_fixture[fixture] = own
            self._expect({name: after.get(name, ABSENT) for name in own})

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Expects what was there before the fixture's setup; called more than once for a fixture."""
        self._compiled_code.release(id(fixturedef))
        values = self._by_fixture.pop(id(fixturedef), {})
        if values and self._is_last:
            # No case follows that could be affected by what the fixture leaves.
            now = self._reader.read()
            values = {name: now.get(name, ABSENT) for name in values}
        self._expect(values)

    def _expect(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            if value is ABSENT:
                self._expected.pop(name, None)
            else:
                self._expected[name] = value

    def _put_back(self, *, has_imported: bool) -> dict[str, bool]:
        """Name of a changed value -> whether it could be put back."""
        after = self._reader.read()
        changed: dict[str, bool] = {}
        of_limit = self._list_of_time_limit(after)
        for name in filter(self._reader.is_known, find_changes(self._expected, after)):
            wanted = self._expected.get(name, self._initial(name))
            if (
                wanted == after.get(name, ABSENT)
                or self._is_first_sight(name)
                or name in of_limit
                or (name == "sys.path" and has_imported and self._has_grown(name, after))
            ):
                self._expect({name: after.get(name, ABSENT)})
            else:
                changed[name] = self._reader.write(name, wanted)
                self._expect({name: wanted})
        return changed

    def _is_first_sight(self, name: str) -> bool:
        """Whether the earlier value is unknown: the module that has it was imported in this case."""
        is_setting = not name.startswith(_VARIABLE)
        return is_setting and name not in self._expected and self._reader.initial(name) is ABSENT

    def _list_of_time_limit(self, after: Mapping[str, object]) -> tuple[str, ...]:
        """What an alarm from around the case has taken with it, as pytest-timeout's does once a test has failed."""
        if not self._expected.get(_ALARM) or after.get(_ALARM):
            return ()
        return (_ALARM, _ALARM_HANDLER) if after.get(_ALARM_HANDLER) == signal.SIG_DFL else (_ALARM,)

    def _initial(self, name: str) -> object:
        """What something new is compared with: a variable with the value that a module gave it on import."""
        if name.startswith(_VARIABLE):
            return self._of_imports.values.get(name.removeprefix(_VARIABLE), ABSENT)
        return self._reader.initial(name)

    def _has_grown(self, name: str, after: Mapping[str, object]) -> bool:
        """Whether entries were added to a path, and none removed."""
        known, now = self._expected.get(name, ()), after.get(name, ())
        return isinstance(known, tuple) and isinstance(now, tuple) and set(known) <= set(now)
