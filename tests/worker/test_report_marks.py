"""Which fixture's teardown raised, from the exception alone."""

from __future__ import annotations

import pytest

PLUGIN = """
from pytest_nsight.worker.report_marks import find_shared_fixtures

def pytest_runtest_makereport(call):
    if call.excinfo is not None:
        print(call.when, sorted(find_shared_fixtures(call.excinfo.value)))
"""

FIXTURES = """
import pytest

def ending(name, **scope):
    @pytest.fixture(name=name, **scope)
    def fixture(request):
        yield
        raise RuntimeError(name)
    return fixture

one_test = ending("one_test")
whole_module, other_module = ending("whole_module", scope="module"), ending("other_module", scope="module")

@pytest.fixture(scope="module")
def sound():
    yield

@pytest.fixture
def depending(sound):
    yield
    raise RuntimeError("depending")
"""

XUNIT = """
class TestEnding:
    def teardown_class(self):
        raise RuntimeError("xunit")

    def test(self):
        pass
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("def test(one_test): pass", []),
        ("def test(depending): pass", []),
        ("def test(whole_module): pass", ["whole_module"]),
        ("def test(one_test, whole_module): pass", ["whole_module"]),
        ("def test(whole_module, other_module): pass", ["other_module", "whole_module"]),
        (XUNIT, ["_xunit_setup_class_fixture_TestEnding"]),
    ],
    ids=["of one test", "depends on one that is shared", "shared", "of one test, and shared", "two", "xunit"],
)
def test_a_fixture_of_several_tests_whose_end_failed_is_named(
    pytester: pytest.Pytester, test: str, found: list[str]
) -> None:
    pytester.makeconftest(PLUGIN)
    pytester.makepyfile(FIXTURES + test)

    ran = pytester.runpytest_inprocess("-s", "-p", "no:cacheprovider")

    assert f"teardown {found}" in ran.stdout.str()


def test_a_fixture_with_parameters_ends_in_the_setup_of_the_next_test(pytester: pytest.Pytester) -> None:
    suite = """
import pytest

@pytest.fixture(scope="module", params=[1, 2])
def server(request):
    yield
    if request.param == 1:
        raise RuntimeError("leaked")

@pytest.fixture(scope="module")
def unable():
    raise RuntimeError("no server")

def test(server): pass
def test_unable(unable): pass
"""
    pytester.makeconftest(PLUGIN)
    pytester.makepyfile(suite)

    said = pytester.runpytest_inprocess("-s", "-p", "no:cacheprovider").stdout.str()

    assert said.count("setup ['server']") == 1
    # What cannot be set up may be another test's doing, and is tried again.
    assert said.count("setup []") == 1
