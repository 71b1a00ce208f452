"""What one test does may fail that test, and no other: whole sessions with one bad test among sound ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.long

SOUND = """
@pytest.mark.nsight
@pytest.mark.parametrize("number", range(4))
def test_sound(number):
    square(torch.ones(2000 + number))
"""


def test_a_test_that_kills_the_process_of_another_run_is_measured_no_more(
    gate: Callable[..., pytest.RunResult],
) -> None:
    bad = "@pytest.mark.nsight\ndef test_bad():\n    os._exit(7)\n"
    result = gate("--nsight-save", "--nsight-runs=3", body=SOUND + bad)

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*3 runs*"])
    assert result.stdout.str().count("before its time") >= 1


def test_a_test_may_replace_what_the_worker_itself_needs(gate: Callable[..., pytest.RunResult]) -> None:
    body = """
@pytest.mark.nsight
@pytest.mark.parametrize("name", ["json.dumps", "os.getpid"])
def test_replaces(nsight, monkeypatch, name):
    monkeypatch.setattr(name, lambda *_, **__: 1)
    nsight(square, torch.ones(100))
"""
    result = gate("--nsight-save", "--nsight-runs=1", body=SOUND + body)

    result.assert_outcomes(passed=6)


def test_an_exception_without_a_text_fails_its_test_alone(gate: Callable[..., pytest.RunResult]) -> None:
    bad = """
class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")

@pytest.mark.nsight
def test_bad():
    raise Silent()
"""
    result = gate("--nsight-save", "--nsight-runs=1", body=SOUND + bad)

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


SHARED = """
@pytest.fixture(scope="module")
def server():
    yield
    raise RuntimeError("server leaked 3 buffers")

@pytest.mark.nsight
def test_uses(server):
    square(torch.ones(100))
"""


def test_the_failed_end_of_a_shared_fixture_stays_an_error_whoever_comes_last(
    gate: Callable[..., pytest.RunResult],
) -> None:
    # In the user's order the last test does not use the fixture, and would pass alone.
    result = gate("--nsight-save", "--nsight-runs=1", "--maxfail=9", body=SHARED + SOUND)

    result.assert_outcomes(passed=5, errors=1)
    result.stdout.fnmatch_lines(["ERROR *test_sound?3* - RuntimeError: server leaked 3 buffers"])
    result.stdout.no_fnmatch_line("*in a fresh process it does not*")


def test_a_process_that_dies_after_its_last_test_passes_nothing(
    gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    bad = """
@pytest.mark.nsight
def test_bad():
    import atexit, signal
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    square(torch.ones(100))
"""
    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-keep", body=SOUND + bad)

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*test_bad*", "*died with SIGSEGV after its last test*"])
    (session,) = (pytester.path / ".nsight").glob("2*")

    gate(f"--nsight-replay={session}").assert_outcomes(passed=4, failed=1)


def test_a_case_that_blames_the_device_in_company_is_measured_again_alone(
    gate: Callable[..., pytest.RunResult],
) -> None:
    body = """
LEAKED = []

@pytest.mark.nsight
def test_a_leaks():
    square(torch.ones(1000))
    LEAKED.append(1)

@pytest.mark.nsight
def test_b_victim():
    if LEAKED:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
    square(torch.ones(1000))

@pytest.mark.nsight
def test_c_culprit():
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

@pytest.mark.nsight
def test_d_sound():
    square(torch.ones(1000))
"""
    result = gate("--nsight-save", "--nsight-runs=2", "--maxfail=9", body=body)

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*illegal memory access*"])


@pytest.mark.parametrize(
    ("closes", "sound", "failed", "errors"),
    [("sys.stdout.close()", 5, 1, 1), ("sys.stderr.close()", 5, 1, 1), ("os.close(1); os.close(2)", 5, 1, 0)],
)
def test_a_test_that_closes_its_output_is_measured_alone(
    gate: Callable[..., pytest.RunResult], closes: str, sound: int, failed: int, errors: int
) -> None:
    bad = f"@pytest.mark.nsight\ndef test_bad():\n    import sys\n    square(torch.ones(10))\n    {closes}\n"
    after = "@pytest.mark.nsight\ndef test_sound_after():\n    square(torch.ones(100))\n"
    result = gate("--nsight-save", "--nsight-runs=2", "-p", "no:randomly", body=SOUND + bad + after)

    result.assert_outcomes(passed=sound, failed=failed, errors=errors)


def test_what_a_test_leaves_patched_fails_no_other_and_a_note_says_it(
    gate: Callable[..., pytest.RunResult],
) -> None:
    body = """
X = torch.ones(64)

@pytest.mark.nsight
def test_a_patches(nsight):
    nsight(torch.sin, X)
    torch.exp = lambda x: 1 / 0

@pytest.mark.nsight
def test_b_is_sound(nsight):
    nsight(torch.exp, X)

@pytest.mark.nsight
def test_c_fails(nsight):
    nsight(torch.tanh, X)
    assert X.sum() == 0, "this is its own fault"
"""
    # With a limit on failures the order stays.
    result = gate("--maxfail=100", "--nsight-collector=torch", body=body)

    result.assert_outcomes(passed=2, failed=1)
    said = " ".join(result.stdout.str().split())
    assert "AssertionError: this is its own fault" in said
    assert (
        "note: test_case.py::test_b_is_sound failed beside other tests of its process: ZeroDivisionError: division "
        "by zero; in a fresh process it does not: another test has changed what it depends on" in said
    )


def test_a_hook_that_stops_the_session_ends_its_process_alone(
    gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    pytester.makeconftest("""
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        item.session.shouldstop = "the device is lost"
    return report
""")
    bad = "@pytest.mark.nsight\ndef test_bad():\n    assert False, 'its own fault'\n"
    after = "@pytest.mark.nsight\ndef test_sound_after():\n    square(torch.ones(100))\n"
    result = gate("--nsight-save", "--nsight-runs=2", "-p", "no:randomly", body=SOUND + bad + after)

    result.assert_outcomes(passed=5, failed=1)
    assert "its own fault" in result.stdout.str()


def test_a_whole_test_that_cannot_be_called_again_says_so(gate: Callable[..., pytest.RunResult]) -> None:
    body = """
@pytest.mark.nsight
def test_makes_a_folder(tmp_path):
    square(torch.ones(10))
    (tmp_path / "out").mkdir()
"""
    result = gate("--nsight-save", "--nsight-runs=1", body=body)

    result.assert_outcomes(failed=1)
    assert "FileExistsError" in result.stdout.str()
    said = " ".join(result.stdout.str().split())
    assert "failed when it was called again: it is measured as a whole" in said


def test_doctests_do_not_take_the_mark_of_their_module(gate: Callable[..., pytest.RunResult]) -> None:
    body = """
pytestmark = pytest.mark.nsight

def double(x):
    '''Twice as much.

    >>> double(2)
    4
    '''
    return 2 * x

def test_square(nsight):
    nsight(square, torch.ones(10))
"""
    result = gate("--nsight-save", "--nsight-runs=1", "--doctest-modules", body=body)

    result.assert_outcomes(passed=2)
    assert "1 saved" in result.stdout.str()
