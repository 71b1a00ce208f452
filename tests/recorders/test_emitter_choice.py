"""Which way ranges take: the nvtx package where it emits, the tool's own library where the package goes silent."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from pytest_nsight.recorders.nvtx import ranges


class Domain:
    """As the package has it from 0.2.12 on, under a tool that it takes for one."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, int]] = []

    def push_range(self, message: str, payload: int) -> None:
        self.pushed.append((message, payload))

    def pop_range(self) -> None:
        self.pushed.pop()


class DummyDomain(Domain):
    """What the package gives under an nsys without nvtxDomainIsEnabled, such as 2022.4 to 2024.2: does nothing."""


class OldDomain:
    """Of a package up to 0.2.11, whose domains cannot push."""


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch):
    def run(domain: object) -> ranges.RangeEmitter:
        package = ModuleType("nvtx")
        package.get_domain = lambda _: domain
        monkeypatch.setitem(sys.modules, "nvtx", package)
        monkeypatch.setattr(ranges, "find_entry", lambda _: None)
        monkeypatch.setattr(
            ranges, "InjectedDomain", lambda library, name: SimpleNamespace(library=library, name=name)
        )
        monkeypatch.setattr(ranges.metadata, "version", lambda _: "0.2.17")
        return ranges.choose({"NVTX_INJECTION64_PATH": "tool.so"})

    return run


def test_a_package_that_emits_is_used(choose):
    domain = Domain()
    emitter = choose(domain)
    emitter.push("case", 7)

    assert emitter.mechanism == "nvtx package 0.2.17"
    assert domain.pushed == [("case", 7)]


@pytest.mark.parametrize("domain", [DummyDomain(), OldDomain()])
def test_a_package_that_is_silent_or_too_old_gives_way_to_the_tool_s_library(choose, domain):
    emitter = choose(domain)

    assert emitter.mechanism == "NVTX injection interface"
    assert emitter.is_live


def test_without_the_package_the_tool_s_library_is_used(choose, monkeypatch):
    choose(Domain())
    monkeypatch.setitem(sys.modules, "nvtx", None)

    assert ranges.choose({"NVTX_INJECTION64_PATH": "tool.so"}).mechanism == "NVTX injection interface"
