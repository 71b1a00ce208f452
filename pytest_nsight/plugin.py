"""The hooks that every pytest calls, with or without --nsight, each delegating; every pytest loads this module.

Those of `Controller` and `Worker` are called in their own processes only, where the plugin object is registered.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_nsight.controller.options import add_options, given_options

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_nsight.worker.fixture import Nsight

# ruff: noqa: PLC0415 - imports wait until they are needed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares options and ini settings."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declares the hooks that others may implement."""
    from pytest_nsight import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Takes `-n` from pytest-xdist before it starts anything: under --nsight it is about the measured tests."""
    if config.getoption("nsight"):
        from pytest_nsight.controller.pytest_input import take_workers

        take_workers(config)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Registers the controller, unless a worker or a bisection is registered already."""
    config.addinivalue_line(
        "markers",
        "nsight(rounds, warmup, rest, cold_cache, band, metric, launches, kernels, max_time, faster_than, by, "
        "bytes, flops, min_share_of_limit, ranks, timeout): measure this test's GPU kernels under --nsight and "
        "judge them.",
    )
    if config.pluginmanager.hasplugin("nsight-worker") or config.pluginmanager.hasplugin("nsight-bisect"):
        return
    if config.getoption("nsight"):
        from pytest_nsight.controller.rootdir import check_rootdir
        from pytest_nsight.controller.settings import read_settings
        from pytest_nsight.model.errors import NsightError, explain_os_error

        try:
            check_rootdir(config)
            settings = read_settings(config)
            from pytest_nsight.controller.controller_plugin import Controller

            controller = Controller(settings, config)
        except NsightError as error:
            raise pytest.UsageError(str(error)) from None
        except OSError as error:
            raise pytest.UsageError(explain_os_error(error)) from None
        config.pluginmanager.register(controller, "nsight-controller")
        return
    for option in given_options(config):
        raise pytest.UsageError(f"{option} needs --nsight, too")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves the sessions out: while two trees are compared, one of them holds the tests of a revision."""
    if collection_path.name == ".nsight" and collection_path.parent == config.rootpath:
        return True if config.getoption("nsight") else None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what the ini setting nsight_mark names, and refuses wrong marks, with or without --nsight."""
    if fixture := config.getini("nsight_mark"):
        from pytest_nsight.protocol.mark import mark_by_fixture

        mark_by_fixture(fixture, items, has_benchmark=config.pluginmanager.hasplugin("benchmark"))
    marked = [item for item in items if item.get_closest_marker("nsight")]
    if marked:
        from pytest_nsight.protocol.mark import check_marks

        check_marks(marked)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Sets torchrun's variables for a single rank if no launcher has set them."""
    if not any("ranks" in mark.kwargs for mark in item.iter_markers("nsight")):
        return (yield)
    from pytest_nsight.protocol.ranks import as_only_rank

    with as_only_rank():
        return (yield)


@pytest.fixture
def nsight(request: pytest.FixtureRequest) -> Nsight:
    """Measures what a test passes to it; without --nsight it just calls it.

    nsight(function, *args, **kwargs) returns the function's result. nsight.pedantic(function, args, kwargs, setup=,
    rounds=, warmup=) takes every argument explicitly. `with nsight.range(name):` names a part of the measured body.
    nsight.work(bytes=, flops=) declares what a round has to do. nsight.rank and nsight.ranks are those of a test
    with ranks=.
    """
    from pytest_nsight.worker.fixture import Nsight, PlainMeasurement

    worker = request.config.pluginmanager.get_plugin("nsight-worker")
    return Nsight(worker.measurement(request.node) if worker else PlainMeasurement())
