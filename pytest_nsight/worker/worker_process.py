"""A worker process from its start to its end: it reads its job, then runs pytest or a script.

The controller or the supervisor starts this module with the folder of a run. job.json in it says how to measure;
assignment.json, which may come later, says which cases.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nsight.collectors.base import Identifier
from pytest_nsight.collectors.lookup import find_factory, make_identifier
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.processes.machine import cpu_name
from pytest_nsight.protocol.job import Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest import FILE_NAME, FORMAT_VERSION
from pytest_nsight.protocol.parent_pipe import PipeFromParent
from pytest_nsight.protocol.ranks import open_barriers
from pytest_nsight.worker.end_at_imports import EndAtImports
from pytest_nsight.worker.leaked_state import LeakedStatePlugin
from pytest_nsight.worker.other_tree_plugin import OtherTreePlugin, install_mapping
from pytest_nsight.worker.process_end import end_children
from pytest_nsight.worker.process_health import ProcessHealthPlugin, find_closed_stream
from pytest_nsight.worker.report_marks import ReportMarksPlugin
from pytest_nsight.worker.session_plugins import OneProcessPlugin, OptionsPlugin, RankPlugin, SkipPlugin
from pytest_nsight.worker.worker_plugin import Worker

_CHILDREN_LIVE_S = 30.0
"""After the last test: exit handlers of the user's code may end them sooner."""


def main(folder: Path) -> int:
    """Runs the job of a run's folder, a pytest or a script; returns its exit code."""
    job = Job.read(folder)
    try:
        parent_pipe = PipeFromParent(folder)
    except FileNotFoundError:
        # The controller gave the run up before it had begun.
        return 1
    journal = Journal(folder / FILE_NAME)
    journal.write(
        "run",
        format=FORMAT_VERSION,
        run=job.run,
        session=job.session,
        recorded=job.recorded,
        commit=job.commit,
        pid=os.getpid(),
        tree=job.tree,
    )
    # A test may replace what reads files; the name is kept.
    cpu_name()
    # As in the user's pytest, so that both import the same modules.
    sys.path[:] = job.path
    if job.mapping is not None:
        install_mapping(job.mapping)
    if job.script is not None:
        from pytest_nsight.worker.script_process import measure_script  # noqa: PLC0415 - no need of pytest's workers

        return measure_script(job, folder, journal, parent_pipe)
    return _measure_tests(job, folder, journal, parent_pipe)


def _measure_tests(job: Job, folder: Path, journal: Journal, parent_pipe: PipeFromParent) -> int:
    """Measures tests in a pytest of this process; returns its exit code."""
    try:
        identifier = make_identifier() if job.identifies else None
    except CollectorError as error:
        journal.write("identity_fault", text=str(error))
        return 1
    EndAtImports(parent_pipe).watch()
    one_process = OneProcessPlugin()
    code = _run_pytest(job.arguments, [one_process, *_make_plugins(job, folder, journal, parent_pipe, identifier)])
    if not one_process.is_interrupted:
        journal.write("end", code=code)
        end_children(_CHILDREN_LIVE_S)
    return code


def _make_plugins(
    job: Job, folder: Path, journal: Journal, parent_pipe: PipeFromParent, identifier: Identifier | None
) -> list[object]:
    recorder = identifier or find_factory(job.collector).make_recorder(folder)
    plugins: list[object] = [OptionsPlugin(), LeakedStatePlugin(journal), ReportMarksPlugin()]
    if job.ranks > 1:
        rounds, cases = open_barriers(folder.parent, job.rank, job.ranks)
        worker = Worker(job, journal, recorder, parent_pipe, rounds.wait)
        plugins += [worker, RankPlugin(folder, job.rank, cases)]
    else:
        worker = Worker(job, journal, recorder, parent_pipe, identifier=identifier)
        plugins += [worker, ProcessHealthPlugin(journal, worker.run), SkipPlugin(job.unable)]
    if job.mapping is not None:
        plugins.append(OtherTreePlugin(journal, job.mapping))
    return plugins


def _run_pytest(arguments: Sequence[str], plugins: Sequence[object]) -> int:
    """Runs pytest; returns its exit code, also where it ends in an error because a test has closed its output."""
    try:
        return int(pytest.main(list(arguments), plugins=plugins))
    except ValueError:
        if not find_closed_stream():
            raise
        return int(pytest.ExitCode.INTERRUPTED)
