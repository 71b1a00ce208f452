"""The end of a measuring process, whose script was ended early or whose tests have left processes running.

The interpreter waits for threads that are no daemons, and multiprocessing for such processes. Exit handlers have to
run all the same, because recorders use them. So the process ends as always, and only these waits have a limit.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_PATIENCE_S = 1.0
"""Time for threads to end, and for pools to end their workers."""


def end_copy(error: BaseException | None) -> NoReturn:
    """Ends a copy of a measuring process, which a test or a script has forked and not ended itself.

    It must not close the files of the process that it copies or run its exit handlers, so Python does not end it:
    after a fork those of torch.profiler wait for ever.

    Args:
        error: what has ended it, None if it came to its end.
    """
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def limit_waits() -> None:
    """Keeps what the script has left running from holding up the end of this process.

    It waits for a short time here, because Python 3.12 starts no thread once the interpreter has begun to end.
    """
    left = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    if left:
        # Where a script has left no hook, threading starts no thread.
        owners: tuple[Any, ...] = (threading, sys)
        for owner in owners:
            owner.excepthook = owner.excepthook or owner.__excepthook__
        # The interpreter looks the function up by this name. It also ends the pools of concurrent.futures.
        wait: Callable[[], None] = threading._shutdown  # type: ignore[attr-defined]  # noqa: SLF001
        threading.Thread(target=wait, name="pytest-nsight-end", daemon=True).start()
        until = time.monotonic() + _PATIENCE_S
        for thread in left:
            thread.join(max(0.0, until - time.monotonic()))
        threading._shutdown = _wait_no_more  # type: ignore[attr-defined]  # noqa: SLF001
    _end_children()


def end_children(after_s: float) -> None:
    """Ends the processes that multiprocessing waits for at the end of this process, if they live for so long.

    Threads are left alone: Python cannot end them, and an interpreter that ends under one may crash.

    Args:
        after_s: seconds from now.
    """

    def wait_and_end() -> None:
        time.sleep(after_s)
        _end_children()
        time.sleep(_PATIENCE_S)
        for child in _list_children():
            child.kill()

    if any(not child.daemon for child in _list_children()):
        try:
            # Not through threading, which starts none where a test has left no excepthook.
            _thread.start_new_thread(wait_and_end, ())
        except RuntimeError:
            # A test has left a limit that allows no thread, and nothing would end them later.
            _end_children()


def _wait_no_more() -> None:
    """Takes the place of the interpreter's wait, after which threads that still run count as daemons."""


def _end_children() -> None:
    """Ends the processes that multiprocessing would wait for in its exit handler.

    It ends them as multiprocessing ends its daemons. Those of pools have ended with their pools before.
    """
    for child in _list_children():
        child.terminate()


def _list_children() -> Sequence[Any]:
    multiprocessing: Any = sys.modules.get("multiprocessing")
    return multiprocessing.active_children() if multiprocessing is not None else ()
