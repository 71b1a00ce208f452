"""What changed in the launches of a case, in words: the cause behind a verdict, and the proof behind IDENTICAL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_nsight.model.identity import (
    POINTER,
    THEN,
    Identity,
    LaunchIdentity,
    MachineCode,
    compare_launches,
)
from pytest_nsight.model.kernel_names import normalise, own_name
from pytest_nsight.model.units import count, name_some

_MOST_PHRASES = 3
_LONGEST_TEXT = 80
_LONGEST_VALUE = 24
"""Longest argument that is shown; longer ones are structs and lists, whose bytes say nothing to a reader."""
_ELSEWHERE = " points to another buffer"
_NUMBERS = ("registers", "instructions", "frame_bytes", "shared_bytes")
_NOUNS = {"frame_bytes": "local memory bytes", "shared_bytes": "shared bytes"}


def describe_proof(launches: Iterable[LaunchIdentity], compared: str) -> str:
    """The sentence on what is equal.

    Args:
        launches: of a round of the case, or of its part.
        compared: what they are identical with, such as "its baseline of 2026-11-20".
    """
    kernels = sum(launch.is_kernel for launch in launches)
    extent = f" ({count(kernels, 'launch')})" if kernels else ""
    return f"the same machine code, launch shapes and arguments as {compared}{extent}"


def describe_change(before: Identity | None, after: Identity | None) -> str:
    """The first few differences between the launches; "" where they are equal or cannot be compared."""
    if not before or not after or not before.digest or not after.digest or before.digest == after.digest:
        return ""
    if before.reading != after.reading:
        return ""
    if not before.launches or not after.launches:
        return "other launches, too many to be stored one by one"
    phrases = list(dict.fromkeys(_list_phrases(list(before.expand()), list(after.expand()))))
    # Pointers are numbered within a round: one that points elsewhere changes the number of all new ones after it.
    elsewhere = [phrase for phrase in phrases if phrase.endswith(_ELSEWHERE)]
    phrases = [phrase for phrase in phrases if phrase not in elsewhere[1:]]
    return name_some(phrases, _MOST_PHRASES)


def _list_phrases(before: list[LaunchIdentity], after: list[LaunchIdentity]) -> Iterator[str]:
    if len(before) != len(after):
        yield from _list_gains_and_losses(before, after)
        return
    names = {launch.name for launch in (*before, *after) if launch.is_kernel}
    for difference in compare_launches(before, after):
        old, new = before[difference.launch], after[difference.launch]
        of = f" of {_name(new.name)}" if len(names) > 1 else ""
        pair = f"{_shorten(difference.before)} -> {_shorten(difference.after)}"
        if difference.what == "code" and old.code and new.code:
            yield f"machine code{of} changed: {_say_numbers(old.code, new.code)}"
        elif difference.what in ("kernel", "graph node", "captured"):
            yield f"another kernel: {_name_both(difference.before, difference.after)}"
        elif difference.what.startswith("argument") and not new.is_kernel and new.kind != "captured":
            yield f"{new.kind} {pair}"
        elif difference.what in ("grid", "block", "cluster"):
            sizes = (getattr(launch, difference.what) for launch in (old, new))
            yield f"{difference.what}{of} {' -> '.join('x'.join(map(str, size)) for size in sizes)}"
        elif difference.what == "shared_bytes":
            yield f"dynamic shared bytes{of} {pair}"
        elif THEN in difference.before and THEN in difference.after:
            yield f"{difference.what}{of} changes from round to round, in another way than before"
        elif difference.what.startswith("argument"):
            yield f"{difference.what}{of}{_compare_values(difference.before, difference.after)}"
        else:
            yield f"{difference.what}{of} {pair}"


def _compare_values(before: str, after: str) -> str:
    """The text after an argument's place: its two values, or the difference between two pointers."""
    old, new = POINTER.fullmatch(before), POINTER.fullmatch(after)
    if old and new:
        whats = [what for what in ("alignment", "allocation") if old[what] != new[what]]
        changed = ", ".join(f"{what} {old[what]} -> {new[what]}" for what in whats)
        return f": {changed}" if changed else _ELSEWHERE
    if not old and not new and all(POINTER.match(text) for text in (before, after)):
        return ", which holds pointers, differs"
    if old or new or max(len(before), len(after)) > _LONGEST_VALUE:
        return " differs"
    return f": {before} -> {after}"


def _name_both(before: str, after: str) -> str:
    old, new = _name(before), _name(after)
    # Template arguments may be all that differs.
    return f"{old} -> {new}" if old != new else f"{_shorten(before)} -> {_shorten(after)}"


def _list_gains_and_losses(before: list[LaunchIdentity], after: list[LaunchIdentity]) -> Iterator[str]:
    yield f"launches {len(before)} -> {len(after)}"
    old, new = (Counter((launch.kind, launch.name) for launch in launches) for launches in (before, after))
    for sign, gone in (("-", old - new), ("+", new - old)):
        for (kind, name), times in gone.items():
            noun = f"{kind} of direction" if kind == "copy" else "set to" if kind == "set" else kind
            yield f"{sign} {times} {noun} {_name(name)}"


def _say_numbers(old: MachineCode, new: MachineCode) -> str:
    pairs = [(what, getattr(old, what), getattr(new, what)) for what in _NUMBERS]
    changed = [f"{_NOUNS.get(what, what)} {was} -> {is_now}" for what, was, is_now in pairs if was != is_now]
    changed += _compare_loops(old.loops, new.loops)
    return ", ".join(changed) or f"other instructions, as many ({new.instructions}), {new.registers} registers"


def _compare_loops(old: tuple[int, ...], new: tuple[int, ...]) -> list[str]:
    """How the loops differ: one that is unrolled in another way has a longer or shorter body, or is gone."""
    if not old or not new or len(old) != len(new):
        # Nobody knows which loop is which; and a baseline of before knows of none.
        return [f"loops {len(old)} -> {len(new)}"] if old and old != new else []
    pairs = [f"{was} -> {is_now}" for was, is_now in zip(old, new, strict=True) if was != is_now]
    return [f"loop of {name_some(pairs, _MOST_PHRASES)} instructions"] if pairs else []


def _name(name: str) -> str:
    return _shorten(own_name(normalise(name)))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
