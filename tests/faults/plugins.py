"""Other plugins and options of pytest: what they mean with --nsight is what they always mean."""

from __future__ import annotations

from tests.faults.fault import SOUND, Fault

FLAKY = "@pytest.mark.nsight\ndef test_wrong(nsight):\n    nsight(work)\n    assert False, 'the real error'\n"

LOGGING = f"""
import logging
{SOUND}
    logging.getLogger().warning("of the worker")

def test_plain():
    logging.getLogger().warning("of the session")
"""

RERUNS = '''
"""Runs a failed test again, the way pytest-rerunfailures does."""
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for is_last in (False, False, True):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if is_last or not any(report.failed for report in reports):
            break
        for report in reports:
            if report.failed: report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        item._initrequest()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
'''

FAULTS = (
    Fault(
        name="a plugin runs failed tests again",
        test=SOUND + FLAKY,
        files={"reruns.py": RERUNS},
        options=("-p", "reruns"),
        code=1,
        says=("the real error", "1 failed", "2 passed"),
        never=("has been measured already",),
    ),
    Fault(
        name="pytest-rerunfailures",
        test=SOUND + FLAKY,
        options=("-p", "pytest_rerunfailures", "--reruns=2"),
        code=1,
        says=("the real error", "1 failed", "2 passed"),
        never=("has been measured already",),
        needs=("pytest_rerunfailures",),
    ),
    Fault(
        name="pytest-forked",
        test=SOUND,
        options=("-p", "pytest_forked", "--forked"),
        code=0,
        says=("2 passed",),
        never=("status 3",),
        needs=("pytest_forked",),
    ),
    Fault(
        name="pytest-xdist loaded by the name of its module",
        options=("-p", "xdist.plugin", "-n", "2"),
        code=4,
        says=("ERROR: -n 2 with --nsight: there is no GPU here", "run with -n 0"),
    ),
    Fault(
        name="pytest-xdist loaded by the name of its module, with one worker",
        options=("-p", "xdist.plugin", "-n", "1"),
        code=0,
        says=("2 passed",),
    ),
    Fault(
        name="pytest-xdist's workers by their specification",
        options=("-p", "xdist.plugin", "--tx", "2*popen", "--dist", "load"),
        code=4,
        says=("--tx with --nsight", "give -n instead"),
    ),
    Fault(
        name="a log file that workers would write, too",
        test=LOGGING,
        options=("--log-file=session.log", "--nsight-runs=2"),
        code=0,
        says=("3 passed",),
        afterwards=("grep", "-c", "of the session", "session.log"),
        later=("1",),
        leaves=("project/session.log",),
    ),
    Fault(
        name="a session without a terminal plugin",
        options=("-p", "no:terminal"),
        code=0,
    ),
    Fault(
        name="a session without faulthandler whose test dies",
        test=SOUND + "    if number: ctypes.string_at(0)\n",
        options=("-p", "no:faulthandler"),
        code=1,
        says=("died with SIGSEGV while test_case.py::test_sound[1] ran", "1 passed"),
    ),
    Fault(
        name="a debugger is asked for",
        test=SOUND + FLAKY,
        options=("--pdb",),
        code=1,
        says=("the real error",),
    ),
    Fault(
        name="a session that stops at the first failure",
        test=FLAKY + SOUND,
        options=("-x",),
        code=1,
        says=("the real error", "stopping after 1 failures"),
    ),
    Fault(
        name="warnings are errors",
        test="import warnings\n" + SOUND + "    if number: warnings.warn('careful')\n",
        options=("-W", "error"),
        code=1,
        says=("UserWarning: careful", "1 failed", "1 passed"),
    ),
    Fault(
        name="torchrun starts the session",
        environ={"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
        code=4,
        says=("--nsight under torchrun would measure all on every rank: run pytest once, without torchrun",),
        is_fast=True,
    ),
)
