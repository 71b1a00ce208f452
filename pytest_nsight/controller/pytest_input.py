"""Starts pytest, and reads what it gives to workers and gate: arguments, cases, environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from pytest_nsight.baselines.comparability import BLOCKING
from pytest_nsight.controller.workers.gpu_assignment import ALL_GPUS
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import Case
from pytest_nsight.protocol.mark import find_partners, is_marked, read_mark

CUT_OPTION = "--confcutdir="
"""Begins the argument that says above which folder pytest loads no conftest.py."""

_WORKERS = pytest.StashKey[tuple[int, int | None]]()


def run_pytest(arguments: Sequence[str], *plugins: object) -> int:
    """Runs pytest in this process.

    Args:
        arguments: of its command line.
        plugins: to register beside the installed ones.

    Returns:
        Its exit code.

    Raises:
        UsageError: code that it loaded, such as a conftest.py, has ended the process: its code says nothing then.
    """
    try:
        return int(pytest.main(list(arguments), plugins=list(plugins)))
    except SystemExit as end:
        raise UsageError(
            f"code that pytest loaded ended it with SystemExit({end.code!r}) before it was done, so nothing was "
            "judged; let conftest.py and plugins skip tests or raise an error, instead of sys.exit"
        ) from end


def take_workers(config: pytest.Config) -> None:
    """Reads pytest-xdist's -n and takes it back: the tests are not distributed, their measuring is.

    Raises:
        pytest.UsageError: workers on other machines are asked for.
    """
    option = config.option
    # By its options: its name differs with how it was loaded.
    if not hasattr(option, "numprocesses") or not hasattr(option, "tx"):
        return
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("--nsight reached a worker of pytest-xdist; start pytest with -n, not its workers")
    if option.tx and not option.numprocesses:
        raise pytest.UsageError("--tx with --nsight: tests are measured on this machine only; give -n instead")
    most = option.maxprocesses or None
    if option.numprocesses in ("auto", "logical"):
        config.stash[_WORKERS] = (ALL_GPUS, most)
    else:
        wanted = option.numprocesses or 1
        config.stash[_WORKERS] = (min(wanted, most or wanted), None)
    option.numprocesses, option.dist, option.distload, option.tx = None, "no", False, []


def taken_workers(config: pytest.Config) -> tuple[int, int | None]:
    """How many workers -n asked for, ALL_GPUS for one on each GPU, and the most for that, None for no limit."""
    return config.stash.get(_WORKERS, (1, None))


def worker_arguments(config: pytest.Config) -> tuple[str, ...]:
    """The user's arguments for a worker, without those that two pytests cannot use at once."""
    arguments = [str(argument) for argument in config.invocation_params.args]
    # pytest looks for them above every argument that is a path, and a report that an option names may exist by now.
    arguments.append(f"--rootdir={config.rootpath}")
    # Else the place of the ini file decides on conftest files above the root, and that of a revision may differ.
    arguments.append(f"{CUT_OPTION}{config.invocation_params.dir / config.known_args_namespace.confcutdir}")
    if config.inipath is not None:
        arguments += ["-c", str(config.inipath)]
    # pytest opens that file before it asks any plugin, and a worker would write over what this one writes.
    arguments.append("--debug=")
    has = config.pluginmanager.hasplugin
    if has("cacheprovider"):
        # The worker's failures are not the user's last failures; .nsight/* stays the list of the sessions.
        arguments += ["-o", "cache_dir=.nsight/.worker-cache"]
    # Plugins of others by their options: their names differ with how they were loaded.
    if hasattr(config.option, "no_cov"):
        arguments.append("--no-cov")
    if hasattr(config.option, "numprocesses"):
        arguments.append("-n0")
    if hasattr(config.option, "testmon"):
        # The assignment has selected already, and its database belongs to the user's pytest.
        arguments.append("--no-testmon")
    if hasattr(config.option, "parallel_threads"):
        # A test is measured once, in one thread.
        arguments.append("--parallel-threads=1")
        arguments += ["--iterations=1"] if hasattr(config.option, "iterations") else []
    if getattr(config.option, "capture", None) == "no":
        # Nobody sees a worker's output, so with -s a test that fails would not say what it printed.
        arguments.append("--capture=fd")
    if has("terminal"):
        arguments.append("--color=no")
    if hasattr(config.option, "randomly_seed"):
        # Every process draws the same numbers, the ranks of a parallel test above all.
        arguments.append(f"--randomly-seed={config.getoption('randomly_seed')}")
    return tuple(arguments)


def tolerate_unused_snapshots(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Has syrupy only warn of snapshots that no test here has used: measured tests use theirs elsewhere.

    Args:
        config: of the session.
        items: all that was found; where no measured one has a snapshot, syrupy judges as always.
    """
    if hasattr(config.option, "warn_unused_snapshots") and any(map(_is_measured_with_snapshot, items)):
        config.option.warn_unused_snapshots = True


def _is_measured_with_snapshot(item: pytest.Item) -> bool:
    return is_marked(item) and "snapshot" in getattr(item, "fixturenames", ())


_INTERACTIVE = {"capture": ("-s", ("no",)), "usepdb": ("--pdb", (True,)), "trace": ("--trace", (True,))}
"""What needs a terminal -> how it is typed, and with which values."""

_BENCHMARK_OUTPUT = ("json", "save", "autosave", "compare", "histogram")

_WITHOUT_TESTS = ("pytest_nsight", "_pytest")
"""Packages whose plugin objects hold nothing that a test needs."""


def describe_unused(config: pytest.Config) -> tuple[str, ...]:
    """Sentences on what the user gave and the processes that measure do not use."""
    option, found = config.option, []
    if getattr(option, "cov_source", None) and not getattr(option, "no_cov", False):
        why = "pytest-cov counts nothing that measured tests run, because a traced round takes longer"
        found.append(f"{why}: run pytest without --nsight for coverage, or add --no-cov here")
    typed = [name for field, (name, values) in _INTERACTIVE.items() if getattr(option, field, None) in values]
    if typed:
        found.append(
            f"{' and '.join(typed)} do nothing for measured tests, whose processes have no terminal: run pytest "
            "without --nsight to watch or debug them"
        )
    given = [name for name in _BENCHMARK_OUTPUT if getattr(option, f"benchmark_{name}", None)]
    if given and config.getini("nsight_mark"):
        names = ", ".join(f"--benchmark-{name}" for name in given)
        found.append(
            f"pytest-benchmark times none of the measured tests for {names}: --nsight-json writes its format"
        )
    classes = [type(plugin) for plugin in config.invocation_params.plugins or () if not isinstance(plugin, str)]
    own = [one.__qualname__ for one in classes if one.__module__.partition(".")[0] not in _WITHOUT_TESTS]
    if own:
        names = ", ".join(dict.fromkeys(own))
        found.append(
            f"the plugins that pytest.main was given as objects ({names}) are not in the processes that measure: "
            "put them into a module, and load it with -p or from a conftest.py"
        )
    return tuple(found)


def ask_environment(config: pytest.Config) -> dict[str, str]:
    """What implementations of the hook pytest_nsight_environment add, the first registered ones last.

    Raises:
        UsageError: one of them is no text, or has a name that decides which runs may be compared.
    """
    fields: dict[str, str] = {}
    for answer in config.hook.pytest_nsight_environment(config=config):
        for name, value in dict(answer or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise UsageError(
                    f"pytest_nsight_environment returns {name!r}: {value!r}; give names and values as text"
                )
            if name in BLOCKING:
                raise UsageError(
                    f"pytest_nsight_environment returns {name!r}, which decides what runs may be compared; "
                    "give it another name"
                )
            fields[name] = value
    return fields


def check_text(texts: Iterable[str]) -> None:
    """Refuses what does not fit into the files that the processes exchange.

    Raises:
        UsageError: a text is not UTF-8: Python shows the bytes of such a name as lone surrogates.
    """
    for text in texts:
        if not text.isascii() and text.encode("utf-8", "replace").decode() != text:
            raise UsageError(
                f"{text!a} is not UTF-8, which the measuring processes take names in: rename the file or folder, "
                "or set PYTHONUTF8=1 if it is the locale that is not"
            )


def is_narrowed(config: pytest.Config) -> bool:
    """Whether the command line selects some of the tests by their names."""
    option = config.option
    return bool(option.keyword or getattr(option, "lf", False)) or any("::" in one for one in config.args)


def read_cases(
    items: Sequence[pytest.Item], deselected: Iterable[pytest.Item], root: Path, band: float
) -> tuple[Case, ...]:
    """What to measure, from the tests and their marks.

    Args:
        items: the marked tests.
        deselected: those that the user did not select: a case to beat may be among them, or in another shard.
        root: pytest's root folder.
        band: where a mark names none.

    Raises:
        NsightError: a mark is wrong, or an id cannot be used.
    """
    others = [item.nodeid for item in deselected if is_marked(item)]
    partners = find_partners(items, others)
    check_text(sorted({*others, *(item.nodeid for item in items)}))
    check_ids(items, root)
    cases = []
    for item in items:
        mark = read_mark(item)
        policy = mark.policy(band, partners.get(item.nodeid))
        cases.append(Case(item.nodeid, policy, mark.ranks, find_line(item), mark.timeout_s))
    return tuple(cases)


def check_ids(items: Sequence[pytest.Item], root: Path) -> None:
    """Refuses ids that two tests may have: measured, stored and judged these would be one.

    Args:
        items: the tests.
        root: pytest's root folder.

    Raises:
        UsageError: two tests have one id; or an id does not lead to its test's file, as with --pyargs, so that
            files of one name would share their baselines.
    """
    for case, number in Counter(item.nodeid for item in items).items():
        if number > 1:
            raise UsageError(
                f"{number} tests have the same id, {case}: a case is known by its id, so give each its own, or "
                "leave out --keep-duplicates or the plugin that made them"
            )
    for item in items:
        file = item.nodeid.partition("::")[0]
        if not item.path.is_relative_to(root) and not (file and (root / file).exists()):
            raise UsageError(
                f"{item.nodeid} is in {item.path}, outside of pytest's root folder {root}, so its id does not say "
                "where, and other tests may have the same one; give a root folder above both with --rootdir"
            )


def find_line(item: pytest.Item) -> int | None:
    """The line of a test in the file of its id; None where it comes from another file, as inherited tests do."""
    file, line, _ = item.location
    return line + 1 if line is not None and item.nodeid.startswith(f"{file}::") else None
