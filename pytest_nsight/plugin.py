"""Every pytest hook of the plugin, each delegating. It imports little: every pytest loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_nsight.options import add_options

if TYPE_CHECKING:
    from pytest_nsight.fixture import Nsight

# ruff: noqa: PLC0415 - imports wait until they are needed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares options and ini settings."""
    add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Decides once what this process is: a plain pytest, the controller, or a worker (which comes registered)."""
    config.addinivalue_line(
        "markers",
        "nsight(rounds, warmup, rest, cold_cache, band, metric, launches, kernels, max_time, faster_than, by, "
        "bytes, flops, min_share_of_limit): measure this test's GPU kernels under --nsight and judge them.",
    )
    if config.pluginmanager.hasplugin("nsight-worker"):
        return
    if config.getoption("nsight"):
        from pytest_nsight.errors import NsightError
        from pytest_nsight.settings import read_settings

        try:
            settings = read_settings(config)
            from pytest_nsight.controller import Controller

            controller = Controller(settings, config)
        except NsightError as error:
            raise pytest.UsageError(str(error)) from None
        config.pluginmanager.register(controller, "nsight-controller")
    elif any(config.getoption(name) for name in ("nsight_save", "nsight_replay")):
        raise pytest.UsageError("--nsight-save and --nsight-replay need --nsight")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses wrong marks, with or without --nsight."""
    marked = [item for item in items if item.get_closest_marker("nsight")]
    if marked:
        from pytest_nsight.mark import check_marks

        check_marks(marked)


@pytest.fixture
def nsight(request: pytest.FixtureRequest) -> Nsight:
    """Measures what a test passes to it; without --nsight it just calls it."""
    from pytest_nsight.fixture import Nsight, PlainMeasurement

    worker = request.config.pluginmanager.get_plugin("nsight-worker")
    return Nsight(worker.measurement(request.node) if worker else PlainMeasurement())
