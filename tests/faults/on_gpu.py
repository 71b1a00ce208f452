"""Faults that need a GPU: what one test does to the device costs that test. Run by tests/gpu/test_faults.py.

They run side by side on one board, so none may fill its memory or take the device from the other processes.
"""

from __future__ import annotations

import signal

from tests.faults.fault import SOUND, WITH_NSYS, WITH_TORCH, Fault, among_sound
from tests.faults.rights_and_secrets import KEPT
from tests.faults.steps import begun, send, small_disk

DEVICE = """
import torch, triton
import triton.language as tl

def work(*_):
    return torch.ones(1000, device="cuda") * 2

@triton.jit
def store_far_away(x_ptr):
    tl.store(x_ptr + 1099511627776, 1.0)
"""

ILLEGAL = "store_far_away[(1,)](torch.ones(1, device='cuda')); torch.cuda.synchronize()"
ASSERTION = "torch.ones(4, device='cuda')[torch.tensor([10**6], device='cuda')]; torch.cuda.synchronize()"
TOO_MUCH = "torch.empty(1 << 50, dtype=torch.uint8, device='cuda')"
LEFT_PROFILER = "torch.profiler.profile().__enter__(); work(); raise RuntimeError('it is left open')"
LEFT_SUBSCRIBER = """work()
    loaded = next(line.split()[-1] for line in open("/proc/self/maps") if "libcupti.so" in line)
    global callback, subscriber
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(print)
    subscriber = ctypes.c_void_p()
    error = ctypes.CDLL(loaded).cuptiSubscribe(ctypes.byref(subscriber), callback, None)
    raise RuntimeError(f"a subscriber is left, or refused with {error}")"""
NO_DEVICE = (
    "os.environ['CUDA_VISIBLE_DEVICES'] = ''; work(); raise RuntimeError('no CUDA-capable device is detected')"
)

SLOW = """
@pytest.mark.nsight
def test_slow(nsight):
    nsight(work)
    if not os.path.exists(BEGUN):
        begin()
        time.sleep(600)
"""


def _suite(body: str) -> str:
    """A test that does this among twenty sound ones; none uses the device before it is measured."""
    return DEVICE + among_sound(f"@pytest.mark.nsight\ndef test_bad(nsight):\n    {body}\n    nsight(work)")


def _breaks(name: str, body: str, *says: str, command: tuple[str, ...] = WITH_NSYS) -> Fault:
    """A test that spoils its process for all that comes after it, and fails."""
    return Fault(
        name=f"a test {name}",
        command=command,
        test=_suite(body),
        code=1,
        says=("1 failed, 20 passed", "FAILED test_case.py::test_bad", *says),
        needs=("nsys",) if command == WITH_NSYS else (),
        limit_s=150.0,
    )


FAULTS = (
    _breaks("with an illegal access", ILLEGAL, "illegal memory access"),
    _breaks("with an illegal access, under torch.profiler", ILLEGAL, "illegal memory access", command=WITH_TORCH),
    _breaks("with a device assertion", ASSERTION, "device-side assert"),
    _breaks("that asks for more memory than there is", TOO_MUCH, "out of memory"),
    _breaks("whose driver has vanished", NO_DEVICE, "CUDA"),
    _breaks(
        "that dies of SIGSEGV under nsys",
        "work(); ctypes.string_at(0)",
        "died with SIGSEGV while test_case.py::test_bad",
    ),
    _breaks("that exits under nsys", "work(); os._exit(0)", "before its time while test_case.py::test_bad"),
    _breaks("that leaves torch.profiler open under nsys", LEFT_PROFILER, "it is left open"),
    _breaks("that leaves torch.profiler open on a GPU", LEFT_PROFILER, "open", command=WITH_TORCH),
    _breaks("that leaves a subscriber of CUPTI", LEFT_SUBSCRIBER, "a subscriber is left, or refused"),
    Fault(
        name="a test that leaves no memory to the others of its process",
        command=WITH_NSYS,
        test=DEVICE
        + SOUND.replace(
            "nsight(work)",
            "nsight(work); torch.cuda.empty_cache(); torch.cuda.set_per_process_memory_fraction(1e-9)",
        ),
        code=0,
        says=("2 passed",),
        needs=("nsys",),
        limit_s=150.0,
    ),
    Fault(
        name="nsys is killed while a kernel is measured",
        command=WITH_NSYS,
        test=f"ENDED = os.path.exists(BEGUN)\n{DEVICE}{SOUND}    begin(); time.sleep(0 if ENDED else 600)\n",
        meanwhile=(begun, send(signal.SIGKILL, "nsys")),
        code=0,
        says=("2 passed",),
        needs=("nsys",),
        limit_s=150.0,
    ),
    Fault(
        name="a full TMPDIR on a GPU",
        command=(*WITH_NSYS, "--nsight-keep"),
        test=DEVICE + SOUND,
        prepare=(small_disk("{root}/temporary", is_full=True),),
        # pytest's own captured output goes to TMPDIR, too; Triton's compiler takes its own place.
        options=("-s",),
        code=0,
        says=("2 passed",),
        leaves=KEPT,
        needs=("nsys", "mount"),
        limit_s=150.0,
    ),
    Fault(
        name="a session on a GPU is killed",
        command=WITH_NSYS,
        test=DEVICE + SLOW,
        meanwhile=(begun, send(signal.SIGKILL)),
        afterwards=WITH_NSYS,
        later=("1 passed",),
        code=-9,
        leaves=("project/.nsight/2*/run-*/parent.pipe",),
        needs=("nsys",),
        limit_s=150.0,
    ),
)
