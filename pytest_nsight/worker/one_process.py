"""A worker stays one process that runs each test once, whatever a test or another plugin does.

A test that forks leaves a second pytest with the same journal. A test that is interrupted would end the session as
if the user had. A plugin that runs each test in a process of its own takes the measurement away from the worker,
which is a process of its own already.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Generator

import pytest

_FORKING = ("pytest_forked", "forked")
"""Names under which plugins that fork for each test are registered."""


class OneProcessPlugin:
    """Ends the copies of the worker, and notes when a test interrupted it.

    Attributes:
        is_interrupted: whether KeyboardInterrupt ended the tests: then they did not come to their end.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.is_interrupted = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Takes plugins out that fork."""
        manager = session.config.pluginmanager
        for name in _FORKING:
            if manager.hasplugin(name):
                manager.unregister(name=name)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Ends a copy of this process that comes out of a test, as the test's own code has not done it."""
        try:
            result = yield
        except BaseException as error:
            self._end_copy(error)
            raise
        self._end_copy(None)
        return result

    pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """The same before a whole test is measured, which calls it again and again."""
        result = yield
        self._end_copy(None)
        return result

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Notes that a test was interrupted. How pytest itself ends the tests is a subclass, and another matter."""
        self.is_interrupted = self.is_interrupted or excinfo.type is KeyboardInterrupt

    def _end_copy(self, error: BaseException | None) -> None:
        if os.getpid() == self._pid:
            return
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            traceback.print_exception(error)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: what the worker has open, and what it does at its end, is the worker's.
        os._exit(code & 0xFF)
