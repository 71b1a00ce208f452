"""What a session concludes from all that it measured: verdicts or a save, reports, and an outcome for each test."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.collection.affected_cases import describe_affected
from pytest_nsight.controller.collection.completeness import (
    describe_expected,
    find_gaps,
    find_unchecked,
    find_unsaved,
)
from pytest_nsight.controller.drill_down import Drill
from pytest_nsight.controller.outcomes import CaseOutcome
from pytest_nsight.controller.saved_runs import (
    SavedRuns,
    describe_reason,
    describe_unfinished_save,
    describe_unfit,
    record_failures,
    save_runs,
    update_counters,
)
from pytest_nsight.controller.session_folders import keep_session, prune_sessions
from pytest_nsight.controller.session_result import (
    SessionRecord,
    add_measured,
    list_compared,
    name_environment,
    write_shard,
)
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.judging import judge_state, list_notes
from pytest_nsight.gate.own_failures import expects_failure
from pytest_nsight.gate.proofs import describe_identities, join_proofs
from pytest_nsight.gate.saving import list_measured, list_saved, withdraw
from pytest_nsight.gate.state import GateState, describe_leaked_state
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.units import count
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.protocol.job import was_measured_again
from pytest_nsight.report import result_file, session_file
from pytest_nsight.report.next_steps import plan_next_steps
from pytest_nsight.report.registry import ReportFile, describe_written, name_from_here, publish, step_summary_path


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion of a session.

    Attributes:
        result: verdicts and the numbers behind them; None where nothing was measured.
        outcomes: case -> what its test reports.
        errors: sentences on what could not be written; with any of them the session fails.
        gaps: sentences on what was not measured though it seems to be; they fail a strict session.
        written: sentences on where the user finds what was asked for: traces, reports.
    """

    result: SessionResult | None = None
    outcomes: Mapping[str, CaseOutcome] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


def conclude(
    session: SessionRecord, state: GateState, stored: StoredRuns, *, is_whole: bool, drill: Drill | None = None
) -> Conclusion:
    """Judges or saves what has been measured, and writes the reports.

    Args:
        session: which one it is.
        state: what was measured.
        stored: the runs to compare with.
        is_whole: whether the session came to its end; one that did not saves nothing.
        drill: reads the counters of slower kernels, or of what is saved; None to read none.

    Raises:
        NsightError: the baselines cannot be read.
    """
    judged = _judge(session, state, stored, drill, is_whole=is_whole)
    result = _make_result(session, judged)
    unwritten = _publish(session, result)
    errors, gaps = (*filter(None, [judged.saved.error]), *unwritten.values()), judged.gaps
    if session.is_shard and is_whole:
        errors += write_shard(session, judged.state, stored, gaps)
        # The other shards decide about the gaps, too.
        gaps = ()
    if session.collector or session.is_shard:
        settings = session.settings
        if settings.keep or settings.recording.keep_report or judged.saved.error or session.is_shard:
            keep_session(session.folder)
        prune_sessions(session.folder.parent)
    written = _describe_files(session, unwritten)
    return Conclusion(result, _list_outcomes(session.settings, judged.state, result), errors, gaps, written)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the measurements of a session came to.

    Attributes:
        state: what was measured, with notes on its judgement.
        verdicts: of all subjects.
        saved: which cases were saved, and where.
        gaps: as those of the conclusion.
        baseline_runs: the stored runs that verdicts compare with.
    """

    state: GateState
    verdicts: tuple[Verdict, ...]
    saved: SavedRuns = field(default_factory=SavedRuns)
    gaps: tuple[str, ...] = ()
    baseline_runs: tuple[RunSummary, ...] = ()


def _judge(
    session: SessionRecord, state: GateState, stored: StoredRuns, drill: Drill | None, *, is_whole: bool
) -> _Judged:
    """Stores, saves or judges what was measured, as the user asked."""
    settings, collected = session.settings, session.collected
    state = state.with_notes(
        state.other.explain_removed(collected.known), describe_leaked_state(state.leaked_state)
    )
    if settings.pool is not None:
        judged = _Judged(state, list_saved(state, StoredRuns()))
    elif session.is_shard:
        left_out = find_gaps(settings, state, collected)
        judged = _Judged(state.with_notes(*left_out.possible), list_measured(state, stored), gaps=left_out.certain)
    elif settings.save:
        judged = _save(session, state, stored, drill if is_whole else None, is_whole=is_whole)
    else:
        judged = _check(session, state, stored, drill)
    judged = replace(judged, gaps=(*collected.raised.describe(), *collected.unmeasured, *judged.gaps))
    if settings.recording.keep_report and session.collector:
        note = _describe_kept_reports(session.folder, session.collector)
        judged = replace(judged, state=judged.state.with_notes(note))
    return judged


def _save(
    session: SessionRecord, state: GateState, stored: StoredRuns, drill: Drill | None, *, is_whole: bool
) -> _Judged:
    """Saves what was measured, if that is all; a case that could not be saved has no verdict."""
    settings, verdicts = session.settings, list_saved(state, stored)
    saved = SavedRuns()
    if not is_whole:
        saved = describe_unfinished_save(settings, state, session.folder)
    elif verdicts:
        saved = save_runs(settings, state, session.folder, session.collector)
        state = state.with_notes(*(() if saved.error else update_counters(settings, state, saved, drill)))
    verdicts = tuple(one if one.subject.case in saved.cases else withdraw(one) for one in verdicts)
    state = state.with_notes(*describe_unfit(state, saved))
    if saved.error or not is_whole:
        # The session fails, whatever it has left out; and the baselines may be what cannot be read.
        return _Judged(state, verdicts, saved)
    state = state.with_notes(*record_failures(session, state, saved))
    left_out = find_gaps(settings, state, session.collected)
    gaps = (*left_out.certain, *find_unsaved(state))
    return _Judged(state.with_notes(*left_out.possible), verdicts, saved, gaps)


def _check(session: SessionRecord, state: GateState, stored: StoredRuns, drill: Drill | None) -> _Judged:
    """Judges what was measured by the stored runs, or by those of the other tree."""
    state = state.with_notes(*list_notes(state, stored))
    timed = judge_state(state, stored)
    state, verdicts = state.with_notes(*describe_identities(state, timed)), join_proofs(state, stored, timed)
    verdicts = drill.explain(verdicts) if drill else verdicts
    left_out = find_gaps(session.settings, state, session.collected)
    state = state.with_notes(*left_out.possible)
    gaps = (*left_out.certain, *find_unchecked(state, stored))
    failing = {one.subject.case for one in verdicts if one.kind.fails_in(strict=session.settings.strict)}
    state = state.with_notes(describe_expected([case for case in failing if expects_failure(state, case)]))
    return _Judged(state, verdicts, gaps=gaps, baseline_runs=list_compared(state, stored))


def _make_result(session: SessionRecord, judged: _Judged) -> SessionResult:
    state, settings, collected = judged.state, session.settings, session.collected
    result = SessionResult(
        session=session.id,
        recorded=session.recorded_at(state),
        collector=session.collector_title(state),
        environment=name_environment(state),
        verdicts=judged.verdicts,
        runs=state.summaries,
        baseline_runs=judged.baseline_runs,
        strict=settings.strict,
        saved=judged.saved.paths,
        notes=(
            *describe_affected(collected.affected),
            *session.notes,
            *state.notes,
            *judged.gaps,
            *describe_reason(settings, judged.saved),
            *filter(None, [judged.saved.error]),
        ),
        affected=collected.affected,
        script=settings.script.command if settings.script is not None else "",
        baselines_option=settings.baselines_option,
    )
    return add_measured(result, state)


def _publish(session: SessionRecord, result: SessionResult) -> Mapping[ReportFile, str]:
    """Writes the reports, a measured session's own among them; what could not be written, with the reason."""
    own = [
        ReportFile("json", session.folder / result_file.FILE_NAME),
        ReportFile("session", session.folder / session_file.FILE_NAME),
    ]
    files = [*(own if session.collector else []), *session.settings.reports]
    return publish(result, files, step_summary=step_summary_path())


def _describe_files(session: SessionRecord, unwritten: Collection[ReportFile]) -> tuple[str, ...]:
    """Sentences on where the user finds the traces and reports that were asked for."""
    kept = _describe_kept(session.folder) if session.settings.keep and session.collector else ""
    reports = [describe_written(file.path) for file in session.settings.reports if file not in unwritten]
    return tuple(filter(None, [kept, *reports]))


def _list_outcomes(settings: Settings, state: GateState, result: SessionResult) -> dict[str, CaseOutcome]:
    outcomes = {}
    for case in (*state.reports, *state.problems):
        verdicts = tuple(result.verdicts_by_case.get(case, ()))
        steps = plan_next_steps(verdicts, result, settings.root_from_start)
        outcomes[case] = CaseOutcome(
            serialised=tuple(dict(report) for report in state.reports.get(case, ())),
            verdicts=verdicts,
            problem=state.problems.get(case, ""),
            next_steps=() if steps is None else tuple(steps.lines),
            warnings=state.warnings.get(case, ()),
        )
    if settings.replay:
        for case in state.plan.case_ids:
            outcomes.setdefault(case, CaseOutcome(is_unrecorded=True))
    return outcomes


def _describe_kept(folder: Path) -> str:
    """Where the traces of a session are, and what shows one."""
    runs = sorted(path for path in folder.glob("run-*") if path.is_dir() and not was_measured_again(path))
    if not runs:
        return ""
    return f"session kept; show a run of it: pytest-nsight show {shlex.quote(name_from_here(runs[0]))}"


def _describe_kept_reports(folder: Path, collector: Collector) -> str:
    """Where the profiler's reports are, and what they may hold."""
    reports = sorted(folder.glob("run-*/**/*.nsys-rep"))
    if not reports:
        return f"--nsight-keep-report kept nothing: the collector {collector.name} has written no report"
    return (
        f"--nsight-keep-report kept {count(len(reports), 'report')} of the profiler in {folder}: a report may hold "
        "environment variables with their values, command lines and paths; give it only to those who may see these"
    )
