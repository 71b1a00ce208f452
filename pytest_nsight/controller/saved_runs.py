"""The save of a session: adds its runs to the baselines, and says whether that worked."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nsight.baselines import store
from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.failed_saves import FILE_NAME as FAILED_SAVES_FILE
from pytest_nsight.baselines.failed_saves import FailedSave, load_failed_saves, store_failed_saves
from pytest_nsight.baselines.stored_counters import store_counters
from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.drill_down import Drill, read_cases
from pytest_nsight.controller.recorded_session import list_whole_runs
from pytest_nsight.controller.session_result import SessionRecord
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.identity_records import attach_identities
from pytest_nsight.gate.own_failures import find_own_failures
from pytest_nsight.gate.saving import list_unfit, list_untimed, list_varying
from pytest_nsight.gate.state import GateState
from pytest_nsight.judge.structure import WHY_VARYING
from pytest_nsight.judge.wording import write_other_metric
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.units import count, name_cases
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.shared_reasons import without_figures

_MOST_CHARACTERS = 300
"""Of a reason that is stored with the baselines."""


@dataclass(frozen=True, slots=True)
class SavedRuns:
    """The result of a save.

    Attributes:
        paths: files that now hold the runs, relative to pytest's root folder where they lie in it.
        cases: the cases whose runs they hold.
        error: why the save failed, with what to type; "" if it did not.
    """

    paths: tuple[str, ...] = ()
    cases: frozenset[str] = frozenset()
    error: str = ""


def save_runs(settings: Settings, state: GateState, folder: Path, collector: Collector | None) -> SavedRuns:
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
    return SavedRuns(_relative(paths, settings.root), frozenset(run.subject.case for run in runs))


def _find_saved(settings: Settings, state: GateState) -> SavedRuns:
    """The files and cases of this session that the baselines hold, however its save ended."""
    home = settings.baselines / store.model_slug(state.device)
    measured = {(run.subject.case, run.run) for run in (*state.accepted, *state.canaries)}
    paths, cases = [], set[str]()
    for name in sorted({store.file_name(case) for case, _ in measured}):
        # A file that cannot be read holds nothing of this session, because files are written whole.
        with contextlib.suppress(NsightError):
            stored = read_file(home / name)
            held = {(subject.case, run.run) for subject, runs in stored.items() for run in runs}
            found = {case for case, _ in held & measured}
            paths += [home / name] if found else []
            cases |= found
    return SavedRuns(_relative(paths, settings.root), frozenset(cases))


def _relative(paths: Sequence[Path], root: Path) -> tuple[str, ...]:
    return tuple(str(path.relative_to(root) if path.is_relative_to(root) else path) for path in paths)


def describe_unfinished_save(settings: Settings, state: GateState, folder: Path) -> SavedRuns:
    """The result of an interrupted save."""
    saved = _find_saved(settings, state)
    changed = (
        f"of the baselines only {', '.join(saved.paths)} changed" if saved.paths else "no baseline was changed"
    )
    whole = list_whole_runs(settings.replay or folder)
    if not whole:
        return replace(saved, error=f"not finished: {changed}, and no run came to its end: save again")
    came = f"{count(len(whole), 'run')} came to an end"
    return replace(saved, error=f"not finished: {changed}; {came}, and {_describe_later_save(settings, folder)}")


def update_counters(settings: Settings, state: GateState, saved: SavedRuns, drill: Drill | None) -> list[str]:
    """Stores the counters of all saved cases, and removes older ones: they may be of other code than the runs.

    Args:
        settings: what the user asked for.
        state: of the whole session.
        saved: what it has stored.
        drill: reads counters; None to read none.

    Returns:
        Sentences on counters that could not be read or stored, and on those that were removed.
    """
    cases = dict.fromkeys(run.subject.case for run in state.accepted)
    source = f"counters of {state.environment.get('gpu', state.device)}"
    found, notes = read_cases(drill.profile, cases, source) if drill else ([], [])
    try:
        removed = store_counters(settings.baselines, store.model_slug(state.device), found, saved.cases)
    except NsightError as error:
        return [*notes, f"the counters were not stored: {error}"]
    if removed:
        notes.append(
            f"counters of {name_cases(sorted(removed))} were removed, as an earlier save had stored them; store "
            "new ones with --nsight-save --nsight-drill"
        )
    return notes


def record_failures(session: SessionRecord, state: GateState, saved: SavedRuns) -> tuple[str, ...]:
    """Lets the next check name the cases that this save could not store; sentences on that."""
    if not state.device:
        # No measurement names the GPU model, whose folder would hold them; such a session fails as a whole.
        return ()
    settings = session.settings
    folder, model = settings.baselines, store.model_slug(state.device)
    failures = {case: why for case, why in find_own_failures(state).items() if case not in saved.cases}
    failed = [FailedSave(case, session.recorded, why[:_MOST_CHARACTERS]) for case, why in failures.items()]
    try:
        removed = session.collected.find_removed(load_failed_saves(folder, model), settings.root)
        store_failed_saves(folder, model, failed, {*saved.cases, *removed})
    except NsightError as error:
        return (f"the next check will not name the cases that were not saved: {error}",)
    if not failed:
        return ()
    (path,) = _relative([folder / model / FAILED_SAVES_FILE], settings.root)
    return (f"not saved: {name_cases(failures)}; the next check says so, by {path}; commit it with the baselines",)


def describe_reason(settings: Settings, saved: SavedRuns) -> tuple[str, ...]:
    """A sentence on the reason, if runs were stored with one."""
    return (f"stored with the reason: {settings.reason}",) if saved.paths and settings.reason else ()


def _describe_later_save(settings: Settings, folder: Path) -> str:
    """How the user saves without measuring again."""
    recording = shlex.quote(str(settings.replay or folder))
    switch = "" if settings.script is not None else "--nsight "
    return f"what was measured is kept: save it with {switch}--nsight-save --nsight-replay {recording}"


def describe_unfit(state: GateState, saved: SavedRuns) -> list[str]:
    """Sentences on stored runs that later checks cannot use well, because of machine, another test or mark."""
    causes: dict[str, list[tuple[str, str]]] = {}
    for subject, why in list_unfit(state).items():
        if subject.case in saved.cases:
            causes.setdefault(without_figures(why), []).append((visible(subject.label), why))
    notes = [
        f"poor baseline of {count(len(found), 'case')} ({name_cases(name for name, _ in found)}): {found[0][1]}"
        f"{', of the first case' if len({why for _, why in found}) > 1 else ''}; save again when the machine is "
        "idle, else later checks may end as ENVIRONMENT"
        for found in causes.values()
    ]
    untimed: dict[tuple[str, str], list[str]] = {}
    for subject, metrics in list_untimed(state).items():
        if subject.case in saved.cases:
            untimed.setdefault(metrics, []).append(visible(subject.label))
    notes += [
        f"{count(len(names), 'case')} ({name_cases(names)}) cannot be judged by {metric} time, which is 0 ns or "
        f"missing in each run: {write_other_metric(other) or 'gate it by another metric'}"
        for (metric, other), names in untimed.items()
    ]
    varying = [visible(subject.label) for subject in list_varying(state) if subject.case in saved.cases]
    if varying:
        notes.append(
            f"poor baseline of {count(len(varying), 'case')} ({name_cases(varying)}): later checks compare times "
            f"alone, as launches differ by run: {WHY_VARYING}"
        )
    return notes
