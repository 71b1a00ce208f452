"""What a session concludes from all that it measured: verdicts or a save, reports, and an outcome for each test."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nsight.baselines import store
from pytest_nsight.baselines.stored_counters import save_counters
from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.completeness import (
    Collected,
    describe_affected,
    describe_removed,
    describe_unmarked,
)
from pytest_nsight.controller.drill_down import Drill, read_cases
from pytest_nsight.controller.outcomes import CaseOutcome
from pytest_nsight.controller.session_folders import keep_session, prune_sessions
from pytest_nsight.controller.session_result import (
    SessionRecord,
    add_measured,
    list_compared,
    name_environment,
    write_shard,
)
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.identity_records import attach_identities
from pytest_nsight.gate.judging import StoredRuns, judge_state, list_measured, list_notes, list_saved, withdraw
from pytest_nsight.gate.proofs import describe_identities, join_proofs
from pytest_nsight.gate.state import GateState, describe_leaked_state
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.units import count
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report.next_steps import plan_next_steps
from pytest_nsight.report.registry import ReportFile, publish, step_summary_path
from pytest_nsight.report.session_file import FILE_NAME

RESULT_FILE = "result.json"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a session came to.

    Attributes:
        result: verdicts and the numbers behind them; None where nothing was measured.
        outcomes: case -> what its test reports.
        errors: sentences on what could not be written; with one of them the session is no success.
        gaps: sentences on what was not measured though it seems to be; they fail a strict session.
    """

    result: SessionResult | None = None
    outcomes: Mapping[str, CaseOutcome] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Saved:
    """What came of a save.

    Attributes:
        paths: files that now hold the runs, relative to pytest's root folder where they lie in it.
        cases: the cases whose runs they hold.
        error: why the save failed, with what to type; "" if it did not.
    """

    paths: tuple[str, ...] = ()
    cases: frozenset[str] = frozenset()
    error: str = ""


def conclude(
    session: SessionRecord,
    settings: Settings,
    state: GateState,
    stored: StoredRuns,
    collected: Collected,
    *,
    is_whole: bool,
    drill: Drill | None = None,
) -> Conclusion:
    """Judges or saves what has been measured, and writes the reports.

    Args:
        session: which one it is.
        settings: what the user asked for.
        state: what was measured.
        stored: the runs to compare with.
        collected: what pytest collected.
        is_whole: whether the session came to its end; one that did not saves nothing.
        drill: reads the counters of slower kernels, or of what is saved; None to read none.

    Raises:
        NsightError: the baselines cannot be read.
    """
    state = state.with_notes(
        state.other.explain_removed(collected.known), describe_leaked_state(state.leaked_state)
    )
    saved = _Saved()
    is_shard = settings.shard is not None and not settings.save
    gaps: tuple[str, ...] = ()
    baseline_runs: tuple[RunSummary, ...] = ()
    if settings.pool is not None:
        verdicts = list_saved(state, StoredRuns())
    elif is_shard:
        verdicts = list_measured(state, stored)
        gaps = _find_gaps(settings, state, collected)
    elif settings.save:
        verdicts = list_saved(state, stored)
        if is_whole and verdicts:
            saved = _save_runs(settings, state, session.folder, session.collector)
            state = state.with_notes(*(_save_counters(settings, state, drill) if drill and not saved.error else ()))
        elif not is_whole:
            saved = _describe_unfinished_save(settings, state, session.folder)
        verdicts = tuple(one if one.subject.case in saved.cases else withdraw(one) for one in verdicts)
    else:
        state = state.with_notes(*list_notes(state, stored))
        timed = judge_state(state, stored)
        state, verdicts = state.with_notes(*describe_identities(state, timed)), join_proofs(state, timed)
        verdicts = drill.explain(verdicts) if drill else verdicts
        baseline_runs = list_compared(state, stored)
        gaps = _find_gaps(settings, state, collected)
    if settings.keep_report and session.collector:
        state = state.with_notes(_describe_kept_reports(session.folder, session.collector))
    errors = tuple(filter(None, [saved.error]))
    result = SessionResult(
        session=session.id,
        recorded=session.recorded,
        collector=session.collector_title(settings),
        environment=name_environment(state),
        verdicts=verdicts,
        runs=state.summaries,
        baseline_runs=baseline_runs,
        strict=settings.strict,
        saved=saved.paths,
        notes=(
            *describe_affected(collected.affected),
            *session.notes,
            *state.notes,
            *gaps,
            *_describe_reason(settings, saved),
            *errors,
        ),
        affected=collected.affected,
        script=settings.script.command if settings.script is not None else "",
    )
    result = add_measured(result, state)
    own = [ReportFile("json", session.folder / RESULT_FILE), ReportFile("session", session.folder / FILE_NAME)]
    errors += publish(
        result, [*(own if session.collector else []), *settings.reports], step_summary=step_summary_path()
    )
    if is_shard and is_whole:
        errors += write_shard(session, settings, state, stored, collected, gaps)
        # The other shards decide about the gaps, too.
        gaps = ()
    if session.collector or is_shard:
        if settings.keep or settings.keep_report or saved.error or is_shard:
            keep_session(session.folder)
        prune_sessions(session.folder.parent)
    return Conclusion(result, _list_outcomes(settings, state, result), errors, gaps)


def _find_gaps(settings: Settings, state: GateState, collected: Collected) -> tuple[str, ...]:
    """Sentences on tests that measure nothing, and on stored cases without a test."""
    removed: tuple[str, ...] = ()
    if state.device and not settings.against and not settings.replay:
        stored = store.load(settings.baselines, store.model_slug(state.device)).runs
        removed = collected.find_removed(
            {subject.case for subject in stored if not subject.is_canary}, settings.root
        )
    return tuple(filter(None, [describe_unmarked(collected.unmarked), describe_removed(removed)]))


def _list_outcomes(settings: Settings, state: GateState, result: SessionResult) -> dict[str, CaseOutcome]:
    outcomes = {}
    for case in (*state.reports, *state.problems):
        verdicts = tuple(verdict for verdict in result.verdicts if verdict.subject.case == case)
        steps = plan_next_steps(verdicts, result)
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


def _describe_kept_reports(folder: Path, collector: Collector) -> str:
    """Where the profiler's reports are, and what they may hold."""
    reports = sorted(folder.glob("run-*/**/*.nsys-rep"))
    if not reports:
        return f"--nsight-keep-report kept nothing: the collector {collector.name} has written no report"
    return (
        f"--nsight-keep-report kept {count(len(reports), 'report')} of the profiler in {folder}: a report may hold "
        "environment variables with their values, command lines and paths; give it only to those who may see these"
    )


def _save_runs(settings: Settings, state: GateState, folder: Path, collector: Collector | None) -> _Saved:
    """Adds what a session measured to the baselines.

    Args:
        settings: what the user asked for.
        state: of the whole session.
        folder: the session's folder; its traces go, unless the user keeps them or the save fails.
        collector: records the session, None for a replay.
    """
    slug = store.model_slug(state.device)
    runs = [*attach_identities(state), *state.canaries]
    try:
        paths = store.save(settings.baselines, slug, runs, reason=settings.reason)
    except NsightError as error:
        return replace(_find_saved(settings, state), error=f"{error}; {_describe_later_save(settings, folder)}")
    if collector is not None and not settings.keep:
        for run in (*folder.glob("run-*/*/"), *folder.glob("run-*")):
            collector.tidy(run, keep=False)
    return _Saved(_relative(paths, settings.root), frozenset(run.subject.case for run in runs))


def _find_saved(settings: Settings, state: GateState) -> _Saved:
    """What the baselines hold of this session, whatever ended its save."""
    home = settings.baselines / store.model_slug(state.device)
    measured = {(run.subject.case, run.run) for run in (*state.accepted, *state.canaries)}
    paths, cases = [], set[str]()
    for name in sorted({store.file_name(case) for case, _ in measured}):
        # A file that cannot be read holds nothing of it: what is written is whole.
        with contextlib.suppress(NsightError):
            stored = store.read_file(home / name)
            held = {(subject.case, run.run) for subject, runs in stored.items() for run in runs}
            found = {case for case, _ in held & measured}
            paths += [home / name] if found else []
            cases |= found
    return _Saved(_relative(paths, settings.root), frozenset(cases))


def _relative(paths: Sequence[Path], root: Path) -> tuple[str, ...]:
    return tuple(str(path.relative_to(root) if path.is_relative_to(root) else path) for path in paths)


def _describe_unfinished_save(settings: Settings, state: GateState, folder: Path) -> _Saved:
    saved = _find_saved(settings, state)
    changed = (
        f"of the baselines only {', '.join(saved.paths)} changed" if saved.paths else "no baseline was changed"
    )
    return replace(saved, error=f"not finished: {changed}; {_describe_later_save(settings, folder)}")


def _save_counters(settings: Settings, state: GateState, drill: Drill) -> list[str]:
    """Stores the counters of all saved cases; sentences on those that could not be read."""
    cases = dict.fromkeys(run.subject.case for run in state.accepted)
    found, troubles = read_cases(drill.profile, cases, f"counters of {state.environment.get('gpu', state.device)}")
    try:
        if found:
            save_counters(settings.baselines, store.model_slug(state.device), found)
    except NsightError as error:
        troubles.append(f"the counters were not stored: {error}")
    return troubles


def _describe_reason(settings: Settings, saved: _Saved) -> tuple[str, ...]:
    return (f"stored with the reason: {settings.reason}",) if saved.paths and settings.reason else ()


def _describe_later_save(settings: Settings, folder: Path) -> str:
    """How the user saves without measuring again."""
    recording = settings.replay or folder
    switch = "" if settings.script is not None else "--nsight "
    return f"what was measured is kept: save it with {switch}--nsight-save --nsight-replay {recording}"
