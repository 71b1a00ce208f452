"""A script in a process of its own: its first pass, which lists its calls, and the later ones, which measure them.

The later ones are workers as those of pytest are: they take an assignment, open the same ranges and write the same
journal. A call that is no case of the assignment returns at once its value of the first pass. The script ends with
its last case.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import pickle
import runpy
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_nsight.collectors.lookup import find_factory
from pytest_nsight.model.errors import name_error
from pytest_nsight.model.values import Subject
from pytest_nsight.processes.machine import gpu_names
from pytest_nsight.protocol.job import OTHER_TREE, WORKER_LOG, Assignment, Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import CaseWarning
from pytest_nsight.protocol.parent_pipe import PipeFromParent
from pytest_nsight.protocol.phase_reports import first_line_of
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.protocol.script import FirstPass, Script, read_values, write_values
from pytest_nsight.worker.fixture import LONGEST_LABEL
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.measured_case import MeasuredRun
from pytest_nsight.worker.other_tree_plugin import find_wrong_imports
from pytest_nsight.worker.patched_imports import patch_imports
from pytest_nsight.worker.process_end import end_copy, limit_waits
from pytest_nsight.worker.process_health import is_device_error
from pytest_nsight.worker.script_adapters import list_patches
from pytest_nsight.worker.script_calls import Call, CallRouter, find_value
from pytest_nsight.worker.script_reports import describe_error, describe_missing, write_reports, write_traceback


class EndOfScript(BaseException):
    """Ends a script after its last case; not an Exception, so that the script does not handle it as an error."""


class Listing:
    """The handler of the first pass: every call returns the library's own value, which is kept.

    Attributes:
        values: name of a call -> what it returned, pickled.
        raised: name of a call that raised -> the line that names its error.
    """

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.raised: dict[str, str] = {}
        self._has_gpu = bool(gpu_names())

    def handle(self, name: str, call: Call) -> Any:
        """The value of one call. A call that raises is no case: the script handles its error."""
        try:
            value = find_value(call, has_gpu=self._has_gpu)
        except Exception as error:
            self.raised[name] = first_line_of(describe_error(error))
            raise
        self.values[name] = pickle.dumps(value)
        return value


class MeasuredPass:
    """The handler of a later pass: measures the calls of an assignment.

    Attributes:
        left: cases that are still to be measured.
        unlisted: names of calls that the first pass did not make.
        is_done: whether the script was ended because nothing was left to measure.
        failed: the case that raised last, "" if none has.
    """

    def __init__(self, run: MeasuredRun, script: Script, assignment: Assignment) -> None:
        self._run = run
        self._script = script
        self._values = read_values(Path(script.first_pass))
        self._raised_first = frozenset(FirstPass.read(Path(script.first_pass)).raised)
        self._has_gpu = bool(gpu_names())
        self.left = dict.fromkeys(assignment.cases)
        self.unlisted: list[str] = []
        self.is_done = False
        self.failed = ""

    def handle(self, name: str, call: Call) -> Any:
        """Measures a case of the assignment.

        Returns:
            The first pass's value.

        Raises:
            EndOfScript: this was the last case, or the device has failed.
        """
        case = self._script.case(name)
        if name not in self._values:
            if name not in self._raised_first:
                self.unlisted.append(name)
            return find_value(call, has_gpu=self._has_gpu)
        if case in self.left:
            self._measure(case, call)
            if not self.left:
                self.is_done = True
                raise EndOfScript
        return pickle.loads(self._values[name])

    def _measure(self, case: str, call: Call) -> None:
        journal, job = self._run.journal, self._run.job
        plan = RoundPlan(rounds=job.rounds, cold_cache=call.cold_cache)
        body = MeasuredBody(case, Subject(case).label[:LONGEST_LABEL], call.body, call.setup, plan)
        began_s = time.time()
        journal.write("case", case=case)
        del self.left[case]
        try:
            with call.context():
                self._run.start_runner().measure(body)
        except Exception as error:
            self.failed = case
            self._end(case, describe_error(error), began_s)
            if is_device_error(error):
                self._run.is_device_lost = True
                raise EndOfScript from error
            raise
        # What interrupts it leaves the call without an end.
        self._end(case, "", began_s)
        self._run.finish_case(case, is_last=not self.left)

    def _end(self, case: str, failure: str, began_s: float) -> None:
        write_reports(self._run.journal, case, failure, began_s)
        self._run.journal.write("case_end", case=case)


def run_script(script: Script, path: str) -> None:
    """Runs the script as Python runs a program, in this process.

    Args:
        script: what to run.
        path: its file, in the tree that is measured.
    """
    home = str(Path.cwd() if script.module else Path(path).resolve().parent)
    # In front of everything that the user's pytest has put on the path.
    sys.path[:] = [home, *(entry for entry in sys.path if entry != home)]
    sys.argv[:] = [path, *script.arguments]
    if script.module:
        runpy.run_module(script.module, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(path, run_name="__main__")


def main(folder: Path) -> int:
    """The first pass, in its folder: runs the script and lists its calls; returns its exit code."""
    job = Job.read(folder)
    assert job.script is not None
    sys.path[:] = job.path
    listing = Listing()
    router = CallRouter(listing.handle)
    patch_imports(list_patches(router))
    # Python calls it after the script's threads have ended, and after the exit handlers that the script registers.
    atexit.register(_write_first_pass, folder, listing, router, os.getpid())
    try:
        run_script(job.script, job.script.path)
    except SystemExit as request:
        if request.code not in (None, 0):
            raise
    except Exception as error:
        print(write_traceback(error), file=sys.stderr)  # noqa: T201
        return 1
    router.end()
    return 0


def _write_first_pass(folder: Path, listing: Listing, router: CallRouter, pid: int) -> None:
    if os.getpid() != pid:
        # A child that the script has forked ends here, too.
        return
    try:
        write_values(folder, listing.values)
        FirstPass(tuple(listing.values), router.unmeasured, listing.raised).write(folder)
    except OSError as error:
        # Python ends with the script's own exit code whatever an exit handler raises.
        print(name_error(error), file=sys.stderr, flush=True)  # noqa: T201
        os._exit(1)


def measure_script(job: Job, folder: Path, journal: Journal, parent_pipe: PipeFromParent) -> int:
    """A later pass: measures the cases of an assignment.

    Returns:
        0 if all passed, 1 if one failed, as pytest does.
    """
    assert job.script is not None
    faulthandler.enable()
    assignment = parent_pipe.wait_for_assignment()
    if assignment is None:
        os._exit(0)
    journal.write("assignment", seed=assignment.seed, cases=assignment.cases)
    run = MeasuredRun(job, journal, find_factory(job.collector).make_recorder(folder), no_barrier)
    run.assign(assignment, [])
    measured = MeasuredPass(run, job.script, assignment)
    router = CallRouter(measured.handle)
    patch_imports(list_patches(router))
    path = job.mapping.map(job.script.path) if job.mapping is not None else job.script.path
    pid = os.getpid()
    failure = _run_to_the_end(job.script, path, measured)
    if os.getpid() != pid:
        end_copy(None if isinstance(failure, EndOfScript) else failure)
    router.end()
    if job.mapping is not None:
        for found in find_wrong_imports(job.mapping):
            journal.write("wrong_import", **asdict(found))
    if failure is not None and measured.failed:
        # Other processes measure that case alone, and the cases after it.
        text = first_line_of(describe_error(failure.__cause__ or failure))
        journal.write("process_failure", case=measured.failed, text=text)
    elif measured.left and job.tree != OTHER_TREE:
        reason = describe_missing(job.script, failure, measured.unlisted, folder / WORKER_LOG)
        _report_missing(measured.left, journal, reason)
    elif measured.left and failure is not None:
        # It has had no first pass. One that comes to its end need not make every call.
        _report_missing(measured.left, journal, describe_error(failure))
    if measured.unlisted:
        _warn_of_unlisted(measured, assignment, job.script, journal)
    code = int(bool(measured.failed or measured.left))
    journal.write("end", code=code)
    # Nothing is measured any more, and the script can end no thread that it has left.
    limit_waits()
    return code


def _run_to_the_end(script: Script, path: str, measured: MeasuredPass) -> BaseException | None:
    """Runs the script without its output; returns what ended it too early, None if nothing did."""
    sys.stdout.flush()
    with Path(os.devnull).open("wb") as nowhere:
        # The first pass has shown it already.
        os.dup2(nowhere.fileno(), 1)
    try:
        run_script(script, path)
    except (Exception, SystemExit, EndOfScript) as end:
        is_regular = isinstance(end, SystemExit) and end.code in (None, 0)
        return None if is_regular or measured.is_done else end
    return None


def _report_missing(cases: Iterable[str], journal: Journal, reason: str) -> None:
    """Fails the cases that this pass did not reach."""
    for case in cases:
        journal.write("case", case=case)
        write_reports(journal, case, reason, time.time())
        journal.write("case_end", case=case)


def _warn_of_unlisted(measured: MeasuredPass, assignment: Assignment, script: Script, journal: Journal) -> None:
    names = ", ".join(dict.fromkeys(measured.unlisted))
    text = f"{script.file} made calls that its first pass did not make, so nothing is measured there: {names}"
    journal.write(
        "warning", **asdict(CaseWarning(assignment.cases[0], "UserWarning", "builtins", text, script.path, 1))
    )
