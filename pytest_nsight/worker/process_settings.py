"""The settings of a process that a test can change for the tests after it: Python's, NumPy's and torch's.

Each is read and written through the library's own functions. A library that the process has not imported is left
alone.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final


class _Absent:
    """The value of a setting that cannot be read."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


@dataclass(frozen=True)
class Setting:
    """One thing that a test can change.

    Attributes:
        name: as the note shows it.
        read: returns a value that can be compared.
        write: takes such a value back.
        initial: what it is in a process that has not changed it, ABSENT where that is not known.
        is_reported: whether a change is worth a note.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    initial: object = ABSENT
    is_reported: bool = True

    def read_or_absent(self) -> object:
        """The value; ABSENT where it cannot be read, as in a folder that was removed or after a CUDA error."""
        try:
            return self.read()
        except (OSError, RuntimeError, AttributeError, TypeError, AssertionError):
            return ABSENT


def list_settings() -> Iterator[Setting]:
    """Every setting of the libraries that are imported now, in the order in which they are to be put back."""
    yield from _PYTHON
    # NumPy imports this part of itself when it is first asked for.
    if hasattr(sys.modules.get("numpy"), "random"):
        yield _numpy_generator()
    torch = sys.modules.get("torch")
    # A test may be in the middle of a failed import.
    if torch is not None and hasattr(torch, "get_default_dtype"):
        yield from _torch_settings()
        if torch.cuda.is_initialized():
            yield from _cuda_settings()


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_LIMIT_OF_INDUCTOR = 2000
"""To which it raises the recursion limit whenever it compiles."""


def _read_recursion_limit() -> int:
    return max(sys.getrecursionlimit(), _LIMIT_OF_INDUCTOR)


def _set_sys_path(entries: tuple[str, ...]) -> None:
    sys.path[:] = entries


def _enable_gc(is_enabled: bool) -> None:  # noqa: FBT001 - a setting's value
    (gc.enable if is_enabled else gc.disable)()


def _has_pending_alarm() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _cancel_alarm(is_pending: bool) -> None:  # noqa: FBT001 - a setting's value
    if is_pending:
        raise ValueError("it is unknown when a cancelled alarm was due")
    signal.setitimer(signal.ITIMER_REAL, 0)


def _limit(name: str, kind: int) -> Setting:
    """A limit of the process that a test may lower. Some libraries raise one on import, and need it so."""
    found, _ = resource.getrlimit(kind)

    def read() -> int:
        now, _ = resource.getrlimit(kind)
        is_raised = now == resource.RLIM_INFINITY or (found != resource.RLIM_INFINITY and now > found)
        return found if is_raised else now

    return Setting(name, read, lambda limit: resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1])))


_PYTHON = (
    Setting("working directory", os.getcwd, os.chdir),
    Setting("sys.path", lambda: tuple(sys.path), _set_sys_path),
    Setting("umask", _read_umask, os.umask),
    Setting("garbage collection", gc.isenabled, _enable_gc),
    Setting("garbage collection thresholds", gc.get_threshold, lambda counts: gc.set_threshold(*counts)),
    Setting("recursion limit", _read_recursion_limit, sys.setrecursionlimit),
    Setting("thread switch interval", sys.getswitchinterval, sys.setswitchinterval),
    Setting("trace function", sys.gettrace, sys.settrace),
    # torch.distributed sets it with every process group, and leaves it so.
    Setting("sys.excepthook", lambda: sys.excepthook, partial(setattr, sys, "excepthook"), is_reported=False),
    Setting("threading.excepthook", lambda: threading.excepthook, partial(setattr, threading, "excepthook")),
    Setting("profile function", sys.getprofile, sys.setprofile),
    Setting("process priority", partial(os.nice, 0), partial(os.setpriority, os.PRIO_PROCESS, 0)),
    Setting("CPU affinity", lambda: os.sched_getaffinity(0), lambda cpus: os.sched_setaffinity(0, cpus)),
    _limit("limit of open files", resource.RLIMIT_NOFILE),
    _limit("limit of file size", resource.RLIMIT_FSIZE),
    _limit("limit of memory", resource.RLIMIT_AS),
    _limit("limit of CPU time", resource.RLIMIT_CPU),
    Setting("pending alarm", _has_pending_alarm, _cancel_alarm),
    Setting("random numbers of Python", random.getstate, random.setstate, is_reported=False),
)


def _numpy_generator() -> Setting:
    numpy: Any = sys.modules["numpy"]

    def read() -> tuple[str, bytes, int, int, float]:
        name, keys, position, has_gauss, gauss = numpy.random.get_state(legacy=True)
        return name, keys.tobytes(), position, has_gauss, gauss

    def write(state: tuple[str, bytes, int, int, float]) -> None:
        name, keys, *rest = state
        numpy.random.set_state((name, numpy.frombuffer(keys, "uint32"), *rest))

    return Setting("random numbers of NumPy", read, write, is_reported=False)


@cache
def _torch_settings() -> tuple[Setting, ...]:
    torch: Any = sys.modules["torch"]
    return (
        Setting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Setting("default device", _default_device, torch.set_default_device),
        Setting("open torch function modes", _count_function_modes, _close_function_modes, initial=0),
        Setting("number of threads", torch.get_num_threads, torch.set_num_threads),
        Setting("inference mode", torch.is_inference_mode_enabled, _refuse_inference_mode),
        Setting("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        Setting("running torch.profiler", _is_profiling, _stop_profiler, initial=False),
        Setting("anomaly detection", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        *_torch_numerics(torch),
        *_autocast_settings(torch),
        Setting(
            "random numbers of torch",
            lambda: torch.get_rng_state().numpy().tobytes(),
            lambda state: torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8)),
            is_reported=False,
        ),
    )


def _refuse_inference_mode(is_enabled: bool) -> None:  # noqa: FBT001 - a setting's value
    raise ValueError(f"torch offers no function that sets it to {is_enabled}")


# torch offers no public functions for these.


def _count_function_modes() -> int:
    """Modes such as that of `with torch.device("cuda")`; that of the default device is a setting of its own."""
    torch: Any = sys.modules["torch"]
    return int(torch._C._len_torch_function_stack()) - (_default_device() is not None)  # noqa: SLF001


def _close_function_modes(number: int) -> None:
    torch: Any = sys.modules["torch"]
    while _count_function_modes() > number:
        torch.overrides._pop_mode()  # noqa: SLF001
    if _count_function_modes() < number:
        raise ValueError("a mode that was closed cannot go on")


def _is_profiling() -> bool:
    autograd: Any = sys.modules["torch"].autograd
    return bool(autograd._profiler_enabled())  # noqa: SLF001


def _stop_profiler(is_running: bool) -> None:  # noqa: FBT001 - a setting's value
    """Ends a profile and drops it: one that is open when the process ends makes it die of SIGSEGV (torch 2.13)."""
    if is_running:
        raise ValueError("a profile that was ended cannot go on")
    autograd: Any = sys.modules["torch"].autograd
    autograd._disable_profiler()  # noqa: SLF001


def _default_device() -> object:
    # torch.get_default_device() makes no difference between "cpu" and no device at all, which is faster; the module
    # is imported when a device is chosen for the first time.
    return getattr(sys.modules.get("torch.utils._device"), "CURRENT_DEVICE", None)


def _torch_numerics(torch: Any) -> Iterator[Setting]:
    """Which kernels torch chooses."""
    matmul, cudnn, cuda = torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.cuda
    # The newer switches of TF32 come first: while they contradict the older ones, those cannot be read.
    for name, owner in (("matmul", matmul), ("cudnn.conv", getattr(cudnn, "conv", None)), ("cudnn", cudnn)):
        if owner is not None and hasattr(owner, "fp32_precision"):
            yield _precision(name, owner)
    yield Setting(
        "float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    )
    yield _flag("cudnn.allow_tf32", cudnn, "allow_tf32")
    for attribute in ("enabled", "benchmark", "deterministic", "benchmark_limit"):
        yield _flag(f"cudnn.{attribute}", cudnn, attribute)
    reductions = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    for attribute in (*reductions, "allow_fp16_accumulation"):
        if hasattr(matmul, attribute):
            yield _flag(f"matmul.{attribute}", matmul, attribute)
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        if hasattr(cuda, f"{kind}_sdp_enabled"):
            yield Setting(
                f"{kind} attention", getattr(cuda, f"{kind}_sdp_enabled"), getattr(cuda, f"enable_{kind}_sdp")
            )
    yield Setting(
        "deterministic algorithms",
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
    )


def _flag(name: str, owner: Any, attribute: str) -> Setting:
    return Setting(name, lambda: getattr(owner, attribute), lambda value: setattr(owner, attribute, value))


def _precision(name: str, owner: Any) -> Setting:
    def read() -> str:
        # Unset and "ieee" are the same, and torch itself makes one of the other.
        return str(owner.fp32_precision).replace("none", "ieee")

    return Setting(f"{name}.fp32_precision", read, lambda value: setattr(owner, "fp32_precision", value))


def _autocast_settings(torch: Any) -> Iterator[Setting]:
    for device in ("cuda", "cpu"):
        yield Setting(
            f"autocast on {device}", partial(_autocast, torch, device), partial(_set_autocast, torch, device)
        )
    yield Setting("autocast cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)


def _autocast(torch: Any, device: str) -> tuple[bool, object]:
    return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)


def _set_autocast(torch: Any, device: str, value: tuple[bool, object]) -> None:
    torch.set_autocast_enabled(device, value[0])
    torch.set_autocast_dtype(device, value[1])
    torch.clear_autocast_cache()


@cache
def _cuda_settings() -> tuple[Setting, ...]:
    cuda: Any = sys.modules["torch"].cuda
    return (
        Setting("current CUDA device", cuda.current_device, cuda.set_device, initial=0),
        Setting("current CUDA stream", cuda.current_stream, cuda.set_stream, initial=cuda.default_stream(0)),
        Setting(
            "random numbers of CUDA",
            lambda: cuda.get_rng_state().numpy().tobytes(),
            lambda state: cuda.set_rng_state(_as_tensor(state)),
            is_reported=False,
        ),
    )


def _as_tensor(state: bytes) -> Any:
    torch: Any = sys.modules["torch"]
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)
