"""What a test leaves changed in its process never reaches the next one, and one sentence of the session says so."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nsight.gate.state import describe_leaked_state
from pytest_nsight.protocol.manifest_events import LeakedState
from pytest_nsight.worker.leaked_state import LeakedStatePlugin, StateReader, find_changes
from pytest_nsight.worker.left_threads import LeftThreads
from pytest_nsight.worker.process_settings import ABSENT
from tests.toolchain import require_gcc

pytestmark = pytest.mark.slow

HEAD = """
import os, random, signal, sys
import numpy, pytest, torch

torch.set_num_threads(1)
X = torch.ones(4)
WHERE = os.getcwd()
PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
# A new entry of sys.path stays beside a first import, so its case may not be the first to import anything.
import contextlib, encodings.ascii
with torch.profiler.profile(), contextlib.suppress(ImportError):
    import torch.profiler._cupti_monitor
    torch.exp(X)
"""

CHANGES = {
    "default dtype": ("torch.set_default_dtype(torch.float64)", "torch.get_default_dtype() == torch.float32"),
    "default device": ("torch.set_default_device('meta')", "torch.ones(1).device.type == 'cpu'"),
    "number of threads": ("torch.set_num_threads(2)", "torch.get_num_threads() == 1"),
    "grad mode": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled()"),
    "cudnn.benchmark": ("torch.backends.cudnn.benchmark = True", "not torch.backends.cudnn.benchmark"),
    "cudnn.deterministic": ("torch.backends.cudnn.deterministic = True", "not torch.backends.cudnn.deterministic"),
    "deterministic algorithms": (
        "torch.use_deterministic_algorithms(True)",
        "not torch.are_deterministic_algorithms_enabled()",
    ),
    "float32 matmul precision": (
        "torch.set_float32_matmul_precision('high')",
        "torch.get_float32_matmul_precision() == 'highest' and not torch.backends.cuda.matmul.allow_tf32",
    ),
    "autocast on cpu": ("torch.autocast('cpu').__enter__()", "not torch.is_autocast_enabled('cpu')"),
    "flash attention": ("torch.backends.cuda.enable_flash_sdp(False)", "torch.backends.cuda.flash_sdp_enabled()"),
    "environment variable LEFT": ("os.environ['LEFT'] = '1'", "'LEFT' not in os.environ"),
    "environment variable BESIDE": ("import wave; os.environ['BESIDE'] = '1'", "'BESIDE' not in os.environ"),
    "environment variable BOTH": ("import both; os.environ['BOTH'] = '2'", "os.environ.get('BOTH', '1') == '1'"),
    "environment variable FLAG": ("import both; os.environ['FLAG'] = '2'", "'FLAG' not in os.environ"),
    "environment variable HOME": ("del os.environ['HOME']", "'HOME' in os.environ"),
    "sys.path": ("sys.path.insert(0, '/left')", "'/left' not in sys.path"),
    "working directory": ("os.mkdir('gone'); os.chdir('gone'); os.rmdir(os.getcwd())", "os.getcwd() == WHERE"),
    "signal handler SIGTERM": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "signal.getsignal(signal.SIGTERM) != signal.SIG_IGN",
    ),
    "pending alarm": ("signal.alarm(60)", "signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)"),
    "umask": ("os.umask(0o123)", "os.umask(0o22) != 0o123"),
    "limit of open files": (
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (64, r.getrlimit(r.RLIMIT_NOFILE)[1]))",
        "__import__('resource').getrlimit(__import__('resource').RLIMIT_NOFILE)[0] != 64",
    ),
    "garbage collection": ("import gc; gc.disable()", "__import__('gc').isenabled()"),
    "threading.excepthook": (
        "import threading; threading.excepthook = None",
        "__import__('threading').excepthook is not None",
    ),
    "trace function": ("sys.settrace(lambda *event: None)", "sys.gettrace() is None"),
    "profile function": ("sys.setprofile(lambda *event: None)", "sys.getprofile() is None"),
}

if os.geteuid() == 0:
    # Nobody else may raise it again.
    CHANGES["process priority"] = ("os.nice(1)", "os.getpriority(os.PRIO_PROCESS, 0) == PRIORITY")

UNNAMED = {"sys.excepthook": ("sys.excepthook = None", "sys.excepthook is not None")}
"""What libraries change, so that it is put back and no note names it."""

TIDY = """
import pytest

@pytest.fixture(scope="module", autouse=True)
def settings(request):
    torch.set_default_dtype(torch.float64)
    os.environ["SET"] = "1"
    request.getfixturevalue("inner")
    yield
    torch.set_default_dtype(torch.float32)
    del os.environ["SET"]

@pytest.fixture(scope="session")
def inner():
    os.environ["INNER"] = "1"
    sys.path.append("/inner")

SEEN = []

@pytest.mark.nsight
@pytest.mark.parametrize("n", [1, 2])
def test_tidy(nsight, n, monkeypatch, tmp_path, request):
    # What plugins set around a case is as they set it.
    assert os.environ["ITEM"] == request.node.name
    # What wider fixtures set stays for all cases.
    assert torch.ones(1).dtype == torch.float64
    assert os.environ["SET"] == os.environ["INNER"] == "1"
    assert "/inner" in sys.path
    # What a first import sets stays: nobody sets it again.
    import library
    assert os.environ["LIBRARY_HOME"] == "/somewhere"
    # What the test itself undoes is nothing to be named.
    monkeypatch.setenv("LEFT", "1")
    monkeypatch.chdir(tmp_path)
    torch.set_float32_matmul_precision("high")
    torch.set_float32_matmul_precision("highest")
    with torch.autocast("cpu"), torch.no_grad():
        nsight(torch.exp, torch.rand(4))
    # Random numbers begin alike in every case.
    SEEN.append((random.random(), float(torch.rand(1)), float(numpy.random.rand())))
    assert len(set(SEEN)) == 1
"""

AROUND = """
import os
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    os.environ["ITEM"] = item.name
    return (yield)
"""

FORGETFUL = """
@pytest.fixture(scope="module", autouse=True)
def forgetful():
    torch.set_default_dtype(torch.float64)
    yield

@pytest.mark.nsight
def test_forgets(nsight):
    nsight(torch.exp, X)
"""


def read_note(result: pytest.RunResult) -> str:
    """The only note on leaked state, whose lines the terminal has wrapped.

    Another note, on a busy machine for example, may follow it.
    """
    (start,) = [number for number, line in enumerate(result.outlines) if line.startswith("note: tests changed")]
    rest = takewhile(lambda line: line.startswith("    "), result.outlines[start + 1 :])
    return " ".join([result.outlines[start], *(line.strip() for line in rest)])


OPTIONS = ("--nsight", "--nsight-save", "--nsight-runs=1", "--nsight-rounds=10", "--nsight-collector=torch")


@pytest.mark.slow
def test_whatever_a_test_changes_is_put_back_before_the_next_one(pytester: pytest.Pytester) -> None:
    # All in one session: what is put back beside something else is put back alone, too.
    changes = (*CHANGES.values(), *UNNAMED.values())
    claims = "\n".join(f"    assert {claim}" for _, claim in changes)
    tests = [
        f"@pytest.mark.nsight\ndef test_{number:02}(nsight):\n{claims}\n    nsight(torch.exp, X)\n    {change}\n"
        for number, (change, _) in enumerate(changes)
    ]
    pytester.makeini("[pytest]\naddopts = -p no:randomly\npythonpath = .\n")
    pytester.makepyfile(
        both="import os\nos.environ['BOTH'] = '1'\nos.environ['FLAG'] = '1'\ndel os.environ['FLAG']\n",
        test_case=HEAD + "\n".join(tests),
    )

    result = pytester.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=len(changes))
    said = read_note(result)
    assert said.count("test_case.py::test_") == 3
    for number, name in enumerate(list(CHANGES)[:3]):
        assert f"test_{number:02} ({name})" in said
    assert f"and {len(CHANGES) - 3} more" in said


@pytest.mark.slow
def test_what_wider_fixtures_and_imports_set_stays_and_tidy_tests_are_not_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:randomly\npythonpath = .\n")
    pytester.makeconftest(AROUND)
    pytester.makepyfile(
        library="import os\nos.environ.setdefault('LIBRARY_HOME', '/somewhere')\n",
        test_a=HEAD + TIDY,
        test_b=HEAD + FORGETFUL,
        test_d=HEAD + FORGETFUL,
        test_c=HEAD
        + "@pytest.mark.nsight\ndef test_after(nsight):\n    assert nsight(torch.exp, X).dtype == X.dtype\n"
        "    assert torch.get_default_dtype() == torch.float32\n",
    )

    result = pytester.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=5)
    said = read_note(result)
    # The order is drawn, and what the last case leaves reaches no other.
    assert re.search(r"left it so: test_[bd]\.py::test_forgets \(default dtype\)[.;]", said)
    assert not re.search("test_tidy|test_after|INNER|ITEM|sys.path", said)


@pytest.mark.slow
def test_what_the_compiler_of_torch_sets_for_itself_is_no_fault_of_a_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_gcc()
    # With an empty cache it loads a library, and notes that in a variable.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(pytester.path / "cache"))
    body = """
@pytest.mark.nsight
def test_compiled(nsight):
    nsight(torch.compile(lambda x: (x * 2).relu()), torch.ones(1000))
"""
    pytester.makepyfile(test_case=HEAD + body)

    result = pytester.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*changed the state*")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("torch.backends.cuda.matmul.fp32_precision = 'tf32'", "float32 matmul precision"),
        ("torch.set_float32_matmul_precision('high')", "float32 matmul precision"),
        ("torch.backends.cudnn.allow_tf32 = False", "cudnn.allow_tf32"),
        ("torch.backends.cuda.matmul.allow_fp16_accumulation = True", "matmul.allow_fp16_accumulation"),
        ("os.environ['LEFT'] = '1'", "environment variable LEFT"),
        ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal handler SIGUSR1"),
    ],
)
def test_the_state_is_what_it_was_after_it_was_put_back(change: str, name: str) -> None:
    code = f"""
import os, signal, torch
from pytest_nsight.worker.leaked_state import StateReader, find_changes
from tests.toolchain import require_gcc
from pytest_nsight.worker.process_settings import ABSENT
reader = StateReader()
before = reader.read()
{change}
changes = find_changes(before, reader.read())
assert {name!r} in changes, changes
assert all(reader.write(name, before.get(name, ABSENT)) for name in changes)
assert find_changes(before, reader.read()) == ()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=100)


def test_the_generator_of_numpy_is_known_before_its_first_use() -> None:
    code = """
import numpy
from pytest_nsight.worker.leaked_state import StateReader
from tests.toolchain import require_gcc
reader = StateReader()
before = reader.read()
first = numpy.random.rand()
reader.write("random numbers of NumPy", before["random numbers of NumPy"])
assert numpy.random.rand() == first
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_a_process_without_torch_stays_without_it() -> None:
    code = """
import sys
from pytest_nsight.worker.leaked_state import StateReader
from tests.toolchain import require_gcc
state = StateReader().read()
assert "umask" in state and "default dtype" not in state
assert not {"torch", "numpy"} & set(sys.modules), "imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100, env={**os.environ, "LEFT": "x"})


def test_a_limit_that_a_library_raises_is_nobodys_change() -> None:
    code = """
import resource
def limit(files):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
limit(64)
from pytest_nsight.worker.leaked_state import StateReader, find_changes
before = StateReader().read()
limit(128)
assert not find_changes(before, StateReader().read())
limit(32)
assert find_changes(before, StateReader().read()) == ("limit of open files",)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_what_torch_distributed_leaves_is_no_fault_of_a_test(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = f"""
import torch.distributed as dist
from pytest_nsight.worker.leaked_state import StateReader, find_changes
reader = StateReader()
before = reader.read()
dist.init_process_group("gloo", init_method="file://{tmp_path}/ranks", rank=0, world_size=1)
dist.destroy_process_group()
changes = find_changes(before, reader.read())
assert changes and not any(map(reader.is_reported, changes)), changes
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_what_cannot_be_put_back_is_said() -> None:
    leaked = {"t.py::t": LeakedState("t.py::t", ("umask", "signal handler SIGTERM"), ("signal handler SIGTERM",))}

    sentence = describe_leaked_state(leaked)

    assert "t.py::t (umask, signal handler SIGTERM)" in sentence
    assert "except signal handler SIGTERM, which cannot be put back" in sentence
    assert describe_leaked_state({}) == ""


def test_an_inference_mode_that_is_left_on_is_known_and_cannot_be_put_back() -> None:
    torch = pytest.importorskip("torch")
    reader = StateReader()
    before = reader.read()
    with torch.inference_mode():
        changes = find_changes(before, reader.read())
        assert "inference mode" in changes
        assert not reader.write("inference mode", before["inference mode"])


def test_a_device_that_stays_entered_is_left_and_named() -> None:
    torch = pytest.importorskip("torch")
    reader = StateReader()
    before = reader.read()
    torch.device("meta").__enter__()
    try:
        assert find_changes(before, reader.read()) == ("open torch function modes",)
    finally:
        assert reader.write("open torch function modes", before["open torch function modes"])
    assert torch.ones(1).device.type == "cpu"

    torch.set_default_device("meta")
    try:
        assert find_changes(before, reader.read()) == ("default device",)
    finally:
        torch.set_default_device(None)


def test_a_profile_that_stays_open_is_ended_and_named(pytester: pytest.Pytester) -> None:
    pytest.importorskip("torch")
    program = """
        import torch
        from pytest_nsight.worker.leaked_state import StateReader, find_changes

        torch.profiler.profile()
        reader = StateReader()
        before = reader.read()
        torch.profiler.profile().__enter__()
        assert find_changes(before, reader.read()) == ("running torch.profiler",)
        assert reader.write("running torch.profiler", before["running torch.profiler"])
        assert not torch.autograd._profiler_enabled()
        assert not reader.write("running torch.profiler", True)
    """
    # In a process of its own: one that ends with an open profile dies of SIGSEGV.
    assert pytester.runpython(pytester.makepyfile(program)).ret == 0


def test_a_library_that_a_test_took_out_of_sys_modules_has_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    plugin = LeakedStatePlugin(SimpleNamespace())  # type: ignore[arg-type]
    item = SimpleNamespace(nodeid="t.py::t")
    protocol = plugin.pytest_runtest_protocol(item, None)  # type: ignore[arg-type]
    next(protocol)
    monkeypatch.delitem(sys.modules, "torch")

    with pytest.raises(StopIteration):
        protocol.send(None)


def test_of_many_changed_values_the_first_are_named() -> None:
    names = tuple(f"environment variable {number:02}" for number in range(40))
    leaked = {"t.py::t": LeakedState("t.py::t", names, names)}

    sentence = describe_leaked_state(leaked)

    assert "environment variable 08, environment variable 09 and 30 more)" in sentence
    assert "environment variable 09 and 30 more, which cannot be put back" in sentence
    assert "environment variable 10" not in sentence


LIMITED = """
import signal
import pytest

def ring(*_):
    raise TimeoutError

def cancel():
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 600)
    try:
        return (yield)
    finally:
        cancel()

def pytest_exception_interact():
    cancel()
"""


def test_a_time_limit_that_ends_with_a_failing_test_is_not_the_tests_doing(pytester: pytest.Pytester) -> None:
    """As pytest-timeout's does."""
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")
    pytester.makeconftest(LIMITED)
    body = """
@pytest.mark.nsight
def test_a():
    assert False

@pytest.mark.nsight
def test_b(nsight):
    nsight(torch.exp, X)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
"""
    pytester.makepyfile(test_case=HEAD + body)

    result = pytester.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=1, failed=1)
    assert "left it so: test_case.py::test_b (signal handler SIGALRM). It was put back before" in read_note(result)


THREADS = """
import threading, time
from concurrent.futures import ThreadPoolExecutor

def poll():
    while True:
        time.sleep(0.01)

@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool

@pytest.fixture
def ended():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    yield
    stop.set()

@pytest.mark.nsight
def test_leaves(nsight):
    threading.Thread(target=poll, name="poller", daemon=True).start()
    nsight(torch.exp, X)

@pytest.mark.nsight
@pytest.mark.parametrize("n", [1, 2])
def test_pool(nsight, pool, ended, n):
    nsight(lambda: pool.submit(torch.exp, X).result())
"""


def test_a_thread_that_a_test_leaves_running_is_named_and_a_pool_of_a_fixture_is_not(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")
    pytester.makepyfile(test_case=HEAD + THREADS)

    result = pytester.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=3)
    said = read_note(result)
    assert "left it so: test_case.py::test_leaves (running thread poller). It was put back" in said
    assert "except running thread poller, which cannot be put back and may count in later cases" in said


STAYING = """
import multiprocessing, time

SPAWN = multiprocessing.get_context("spawn")

@pytest.fixture(scope="module")
def served():
    server = SPAWN.Process(target=time.sleep, args=(1000,), name="server")
    server.start()
    yield
    server.terminate()

@pytest.mark.nsight
def test_leaves(nsight, served):
    SPAWN.Process(target=time.sleep, args=(1000,), name="child").start()
    nsight(torch.exp, X)
"""


@pytest.mark.long
def test_a_process_that_a_test_leaves_running_is_named_and_holds_nothing_up(pytester: pytest.Pytester) -> None:
    """Python waits for it at its end, here for a quarter of an hour."""
    pytester.makepyfile(test_case=HEAD + STAYING)

    result = pytester.runpytest_subprocess(*OPTIONS, timeout=300)

    result.assert_outcomes(passed=1)
    assert "test_case.py::test_leaves (running process child)" in read_note(result)


def test_threads_of_wider_fixtures_of_libraries_and_of_idle_pools_are_nobodys() -> None:
    threads, stop = LeftThreads(), threading.Event()
    with threads.taken_over():
        threading.Thread(target=stop.wait, name="of a fixture").start()
    of_library = threading.Thread(target=stop.wait, name="of torch")
    of_library.__module__ = "torch.utils.data"
    of_library.start()
    with ThreadPoolExecutor(2, "pool") as pool:
        pool.submit(int).result()
        assert threads.find() == ()
        pool.submit(stop.wait)
        threading.Thread(target=stop.wait, name="left").start()
        threading.Thread(target=time.sleep, args=(0.01,), name="about to end").start()
        assert threads.find() == ("running thread left", "running thread pool_0")
        threads.begin()
        assert threads.find() == ()
        stop.set()


class Journal:
    """Remembers what is recorded."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []

    def write(self, event: str, **values: object) -> None:
        self.events.append((event, values["names"]))


class Reader(StateReader):
    """A process in which a library appears after the first case, as CUDA does; its setting starts at 0."""

    def __init__(self, *values: int | None) -> None:
        super().__init__()
        self._values = iter(values)
        self.written: list[object] = []

    def read(self) -> dict[str, object]:
        value = next(self._values)
        return {"other": 1} if value is None else {"other": 1, "device": value}

    def is_known(self, name: str) -> bool:
        return True

    def initial(self, name: str) -> object:
        return 0 if name == "device" else ABSENT

    def write(self, name: str, value: object) -> bool:
        self.written.append((name, value))
        return True


@pytest.mark.parametrize(
    ("values", "written"),
    # Before and after each of three cases.
    [
        ((None, 0, 0, 0, 0, 0), []),
        ((None, 1, 0, 0, 0, 0), [("device", 0)]),
        ((None, 0, 0, 1, 0, 0), [("device", 0)]),
    ],
    ids=["untouched", "changed at its first use", "changed later"],
)
def test_a_library_that_comes_later_is_compared_with_its_initial_state(
    values: tuple[int | None, ...], written: list[object]
) -> None:
    journal, reader = Journal(), Reader(*values)
    plugin = LeakedStatePlugin(journal)  # type: ignore[arg-type]
    plugin._reader = reader

    for number in range(3):
        item = SimpleNamespace(nodeid=f"t.py::test_{number}")
        protocol = plugin.pytest_runtest_protocol(item, item)  # type: ignore[arg-type]
        next(protocol)
        with contextlib.suppress(StopIteration):
            protocol.send(None)

    assert reader.written == written
    assert len(journal.events) == len(written)
