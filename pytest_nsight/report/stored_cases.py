"""Tables of what baselines hold: all cases in a line each, or every save of some cases."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.baselines.inventory import StoredCase, StoredSave
from pytest_nsight.judge.location import typical_ns
from pytest_nsight.judge.structure import count_launches
from pytest_nsight.model.units import count, duration, short_commit, shorten
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.table import Column, align
from pytest_nsight.report.verdict_text import labels

_ELLIPSIS = "..."
_LEAST_OF_A_UUID = 12
_MOST_OF_A_LINE = 5
_UUIDS = ("GPU-", "MIG-")
_UNKNOWN = "-"


def render_list(cases: Sequence[StoredCase], width: int) -> str:
    """A table with a line for each case: its runs, and the newest save.

    Args:
        cases: the stored cases of one GPU model, at least one.
        width: the most characters that a line may have.
    """
    newest = [case.saves[-1] for case in cases]
    named = labels(case.subject for case in cases)
    columns = [
        Column("case", [named[case.subject] for case in cases], is_number=False),
        Column("runs", [str(case.runs) for case in cases]),
        Column("time", [_time(save) for save in newest]),
        Column("launches", [_launches(save) for save in newest]),
        Column("stored", [_day(save) for save in newest], is_number=False),
        Column("commit", [_commit(save) for save in newest], is_number=False),
        Column("boards", [str(len({save.board for save in case.saves})) for case in cases]),
    ]
    runs = count(sum(case.runs for case in cases), "run")
    head = f"{cases[0].model}: {count(len(cases), 'stored case')}, {runs}"
    return "\n".join([head, *align(columns, width, _ELLIPSIS)])


def render_saves(case: StoredCase, width: int) -> str:
    """A table with a line for each save of a case, oldest first.

    Args:
        case: one stored case.
        width: the most characters that a line may have.
    """
    saves = case.saves
    columns = [
        Column("reason", [visible(save.reason) or _UNKNOWN for save in saves], is_number=False),
        Column("stored", [_day(save) for save in saves], is_number=False),
        Column("commit", [_commit(save) for save in saves], is_number=False),
        Column("board", _name_boards(saves, width), is_number=False),
        Column("runs", [str(save.runs) for save in saves]),
        Column("time", [_time(save) for save in saves]),
        Column("launches", [_launches(save) for save in saves]),
    ]
    part = f"/{case.subject.part}" if case.subject.part else ""
    head = f"{case.model}: {visible(case.subject.case + part)}, {count(case.runs, 'run')}"
    return "\n".join([head, *align(columns, width, _ELLIPSIS)])


def _name_boards(saves: Sequence[StoredSave], width: int) -> list[str]:
    """UUIDs by their beginnings; the name of a CPU whole where there is room, else without its middle."""
    room = max(_LEAST_OF_A_UUID, width // _MOST_OF_A_LINE)
    names = shorten_boards([visible(save.board) for save in saves])
    return [shorten(name, room, _ELLIPSIS) for name in names]


def shorten_boards(boards: Sequence[str]) -> list[str]:
    """The shortest beginnings of UUIDs, from 12 signs on, that are as different as they are; names stay whole."""
    uuids = {board for board in boards if board.startswith(_UUIDS)}
    length = _LEAST_OF_A_UUID
    while len({uuid[:length] for uuid in uuids}) < len(uuids):
        length += 1
    return [board[:length] if board in uuids else board for board in boards]


def _time(save: StoredSave) -> str:
    return duration(typical_ns(save.measured, save.metric)) if save.metric else _UNKNOWN


def _launches(save: StoredSave) -> str:
    return str(count_launches(save.measured[-1]))


def _day(save: StoredSave) -> str:
    return visible(save.recorded)[:16].replace("T", " ") or _UNKNOWN


def _commit(save: StoredSave) -> str:
    return short_commit(visible(save.commit)) or _UNKNOWN
