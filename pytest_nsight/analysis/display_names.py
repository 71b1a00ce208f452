"""Names for tables: short, and different wherever the things are different. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from pytest_nsight.model.kernel_names import scoped_name

_FEWEST = 3
_MANY = 20
"""Names that differ in one number only and are this many count something, such as operators, not sizes."""
_NUMBER = re.compile(r"(?<!\d)\d{1,18}(?!\d)")
_MOST_NUMBERS = 3
_SEPARATOR = "\0"
_OPERATOR_IDS = re.compile(r",? *\b(?:seq|op_id|seq_id|fwd_thread_id|Iteration|id) *[=:] *\d+")
"""What emit_nvtx and Kineto append to the name of each operator."""
_DIGITS = str.maketrans("123456789", 9 * "0")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_MOST_DIFFERENCES = 48
_BARE = frozenset({"kernel", "Kernel", "Kernel2", "device_kernel"})

DomainName = tuple[str, str]
"""Domain and name of a range."""


def fold_names(names: Iterable[str]) -> dict[str, str]:
    """A common name for names that differ only in a number that counts.

    A number counts if the names have every number from the least to the greatest, or more than twenty of them.
    Sizes and widths, as in matmul_1024 and fp16, do neither and stay. Ids that a profiler appends go first.

    Args:
        names: any names; repetitions do not matter.

    Returns:
        Each name's common name, with * for the number, or the name itself.
    """
    texts = list(dict.fromkeys(names))
    return dict(zip(texts, fold_list(texts), strict=True))


def fold_list(names: Sequence[str]) -> list[str]:
    """The common name of each name; `fold_names` says which.

    Args:
        names: any names.
    """
    plain = [short or name for short, name in zip(_strip_operator_ids(names), names, strict=True)]
    folded = {name: name for name in set(plain)}
    for position in range(_MOST_NUMBERS):
        shorter = _fold_number(set(folded.values()), position)
        folded = {name: shorter[short] for name, short in folded.items()}
    return [folded[name] for name in plain]


def _strip_operator_ids(names: Sequence[str]) -> list[str]:
    """The names without the ids of operators.

    Profilers number millions of operators, whose names differ in digits only: each kind of name is read once.
    """
    joined = _SEPARATOR.join(names).translate(_DIGITS)
    while "00" in joined:
        joined = joined.replace("00", "0")
    kinds = joined.split(_SEPARATOR) if names else []
    if len(kinds) != len(names):
        return [_OPERATOR_IDS.sub("", name) for name in names]
    stripped = {kind: _OPERATOR_IDS.sub("", kind) for kind in set(kinds)}
    return [
        name if (short := stripped[kind]) == kind else _OPERATOR_IDS.sub("", name) if "0" in short else short
        for name, kind in zip(names, kinds, strict=True)
    ]


def _fold_number(names: Iterable[str], position: int) -> dict[str, str]:
    """The names with the number at a position, counted from the last one, folded where it counts."""
    families: defaultdict[str, dict[int, str]] = defaultdict(dict)
    folded = {name: name for name in names}
    for name in folded:
        if match := _find_number(name, position):
            families[_replace(name, match)][int(match[0])] = name
    for family, members in families.items():
        is_row = len(members) >= _FEWEST and max(members) - min(members) == len(members) - 1
        if is_row or len(members) > _MANY:
            folded.update(dict.fromkeys(members.values(), family))
    return folded


def _find_number(name: str, position: int) -> re.Match[str] | None:
    """The number of a name at a position, counted from the last one."""
    numbers = list(_NUMBER.finditer(name))
    return numbers[-1 - position] if len(numbers) > position else None


def _replace(name: str, match: re.Match[str]) -> str:
    return f"{name[: match.start()]}*{name[match.end() :]}"


def label_names(*traces: Iterable[DomainName]) -> dict[DomainName, str]:
    """The label of each name: without a number that only counts, and with its domain where there are several.

    A number that counts in one trace counts in all, and so do the domains.

    Args:
        traces: domain and name of each range of each trace; repetitions do not matter.
    """
    by_domain: dict[str, list[list[str]]] = {}
    for number, trace in enumerate(traces):
        for domain, name in dict.fromkeys(trace):
            by_domain.setdefault(domain, [[] for _ in traces])[number].append(name)
    labels: dict[DomainName, str] = {}
    for domain, of_traces in by_domain.items():
        folded = [fold_names(names) for names in of_traces]
        families = {family for one in folded for family in one.values() if "*" in family}
        prefix = f"{domain}:" if len(by_domain) > 1 and domain else ""
        for one in folded:
            for name, short in one.items():
                label = _find_family(short, families) if len(traces) > 1 else short
                labels[domain, name] = prefix + (label or "(no name)")
    return labels


def _find_family(name: str, families: Collection[str]) -> str:
    """The family of a name among those that names like it have in any trace; the name itself if there is none."""
    variants = [name]
    for position in range(_MOST_NUMBERS):
        found = [(variant, match) for variant in variants if (match := _find_number(variant, position))]
        variants += [_replace(variant, match) for variant, match in found]
    return next((variant for variant in reversed(variants) if variant in families), name)


def keep_namespace(full_name: str, short: str) -> str:
    """The short name of a kernel; with its namespaces where it only says that it is a kernel.

    Args:
        full_name: as the profiler gave it.
        short: the normalised name.
    """
    return scoped_name(full_name) or short if short in _BARE else short


def distinguish(names: Sequence[tuple[str, str]]) -> list[str]:
    """The short names, each with what distinguishes it from others that have the same one.

    Args:
        names: full name and short name of each thing; full names are distinct, or the things are alike.

    Returns:
        The short name where it is the only one; else with the parts of the full name that not all of them share.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for full_name, short in names:
        groups[short].append(full_name)
    differences: dict[tuple[str, str], str] = {}
    for short, group in groups.items():
        differences.update(((full_name, short), text) for full_name, text in _differences(set(group)).items())
    found = [f"{name[1]} [{text}]" if (text := differences[name]) else name[1] for name in names]
    return _number_repetitions(found)


def _differences(group: Collection[str]) -> dict[str, str]:
    """Of each full name the parts that not all of the group share; "" for a name without others."""
    if len(group) == 1:
        return dict.fromkeys(group, "")
    tokens = {name: dict.fromkeys(_TOKEN.findall(name)) for name in group}
    shared = set.intersection(*map(set, tokens.values()))
    texts = {
        name: " ".join(token for token in own if token not in shared and token[0].isalnum())
        for name, own in tokens.items()
    }
    return {
        name: text if len(text) <= _MOST_DIFFERENCES else f"{text[: _MOST_DIFFERENCES - 2]}.."
        for name, text in texts.items()
    }


def _number_repetitions(names: Sequence[str]) -> list[str]:
    """The names; of equal ones, the second and later get a number."""
    seen: defaultdict[str, int] = defaultdict(int)
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found
