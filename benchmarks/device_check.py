"""Exercises the torch-free device control and the compiled canaries on a real GPU, in under a minute.

    python -m benchmarks.device_check [--torch] [--full]

Prints one JSON object a line: the check's name, whether it holds, and its figures. The exit code is 1 if one does
not hold. `--torch` also measures torch's own canaries, so that both can be compared. `--full` takes the canaries'
full size; without it they are an eighth.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_float, c_uint64, c_void_p

from pytest_nsight.worker.canaries import Canary, make_canaries
from pytest_nsight.worker.compiled_canaries import SOURCE, make_compiled_canaries
from pytest_nsight.worker.cuda_driver import CudaDriver, DeviceBuffer, load_driver
from pytest_nsight.worker.gpu_devices import DriverGpu
from pytest_nsight.worker.nvml import Nvml
from pytest_nsight.worker.nvrtc import compile_source, load_nvrtc

ROUNDS = 30
EIGHTH = 8
THREADS = 256


class Report:
    """Prints the checks and keeps count of those that do not hold."""

    def __init__(self) -> None:
        self.failures = 0

    def say(self, check: str, *, holds: bool, **figures: object) -> None:
        """Prints one check."""
        self.failures += not holds
        print(json.dumps({"check": check, "holds": holds, **figures}), flush=True)

    @contextmanager
    def attempt(self, check: str) -> Iterator[None]:
        """A check that breaks off does not hold; the others follow all the same."""
        try:
            yield
        except Exception as error:
            self.say(check, holds=False, error=f"{type(error).__name__}: {error}")


class Timer:
    """Durations on the device, by two events on the default stream."""

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._events = (c_void_p(), c_void_p())
        with driver.current():
            for event in self._events:
                driver.call("cuEventCreate", byref(event), 0)

    def measure_us(self, body: Callable[[], object]) -> float:
        """Time from before to after what `body` puts on the default stream."""
        start, end = self._events
        elapsed_ms = c_float()
        with self._driver.current():
            self._driver.call("cuEventRecord", start, None)
            body()
            self._driver.call("cuEventRecord", end, None)
            self._driver.call("cuEventSynchronize", end)
            self._driver.call("cuEventElapsedTime", byref(elapsed_ms), start, end)
        return elapsed_ms.value * 1000


def check_identity(report: Report, driver: CudaDriver) -> None:
    """Name, UUID and sizes agree with NVML, which has them from elsewhere."""
    nvml = Nvml(driver.uuid)
    report.say(
        "identity",
        holds=not nvml.missing and driver.l2_bytes > 0 and driver.memory_bytes > driver.read_free_bytes() > 0,
        name=driver.name,
        uuid=driver.uuid,
        nvml=nvml.missing or "found by this UUID",
        memory_bytes=driver.memory_bytes,
        free_bytes=driver.read_free_bytes(),
        l2_bytes=driver.l2_bytes,
        multiprocessors=driver.multiprocessors,
        architecture=driver.architecture,
        cuda=driver.version,
    )


def check_memory(report: Report, driver: CudaDriver) -> None:
    """Memory comes and goes with its buffer, and holds what is written."""
    before = driver.read_free_bytes()
    buffer = DeviceBuffer(driver, 1 << 30)
    within = driver.read_free_bytes()
    driver.clear(buffer)
    content = driver.read_buffer(buffer, 1 << 20, offset=(1 << 30) - (1 << 20))
    del buffer
    after = driver.read_free_bytes()
    report.say(
        "memory",
        holds=before - within >= 1 << 30 and after >= before and not any(content),
        taken_bytes=before - within,
        given_back_bytes=after - within,
    )


def check_waiting(report: Report, driver: CudaDriver) -> None:
    """`synchronize` waits for what was launched, and launching does not."""
    buffer = DeviceBuffer(driver, 4 << 30)
    driver.synchronize()
    began_s = time.perf_counter()
    for _ in range(20):
        driver.clear(buffer)
    launched_s = time.perf_counter() - began_s
    driver.synchronize()
    waited_s = time.perf_counter() - began_s
    least_s = 20 * (4 << 30) / 8e12
    report.say(
        "waiting",
        holds=launched_s < waited_s and waited_s > least_s,
        launched_us=launched_s * 1e6,
        waited_us=waited_s * 1e6,
    )


def check_flush(report: Report, device: DriverGpu, driver: CudaDriver, timer: Timer) -> None:
    """What was read a moment ago is read again from the cache, and from memory after a flush."""
    functions = driver.load_functions(
        compile_source(load_nvrtc(), SOURCE, driver.architecture).image, ["nsight_negate"]
    )
    elements = driver.l2_bytes // 4 // 4
    x, out = DeviceBuffer(driver, elements * 4), DeviceBuffer(driver, elements * 4)
    driver.clear(x)
    arguments = [c_uint64(x.pointer), c_uint64(out.pointer), c_uint64(elements // 4)]

    def body() -> None:
        driver.launch(functions["nsight_negate"], driver.multiprocessors * 8, THREADS, arguments)

    def cold_us() -> float:
        device.flush()
        return timer.measure_us(body)

    body()
    warm = statistics.median(timer.measure_us(body) for _ in range(ROUNDS))
    cold = statistics.median(cold_us() for _ in range(ROUNDS))
    flush = statistics.median(timer.measure_us(device.flush) for _ in range(ROUNDS))
    report.say("flush", holds=cold > 1.2 * warm, warm_us=warm, cold_us=cold, flush_us=flush, bytes=elements * 4)


def check_floor(report: Report, device: DriverGpu) -> None:
    """The smallest round: its host time is the floor that pacing subtracts."""
    samples = []
    for _ in range(200):
        began_ns = time.perf_counter_ns()
        device.launch_little()
        device.synchronize()
        samples.append((time.perf_counter_ns() - began_ns) / 1000)
    report.say("floor", holds=statistics.median(samples) < 200, median_us=statistics.median(samples))


def check_canary(report: Report, kind: str, canary: Canary, device: DriverGpu, timer: Timer) -> None:
    """A canary runs, repeats, and takes a time that its work explains."""
    began_s = time.perf_counter()
    prepared = canary.prepare()
    for _ in range(5):
        prepared.body()
    device.synchronize()
    ready_s = time.perf_counter() - began_s
    durations = []
    for _ in range(ROUNDS):
        if canary.cold_cache:
            device.flush()
        durations.append(timer.measure_us(prepared.body))
    middle = sorted(durations)[ROUNDS // 4 : -ROUNDS // 4]
    mean = statistics.fmean(middle)
    figures: dict[str, object] = {
        "median_us": statistics.median(durations),
        "middle_spread": statistics.stdev(middle) / mean,
        "range": (max(durations) - min(durations)) / mean,
        "ready_s": ready_s,
        "sm_mhz": device.read().sm_mhz,
    }
    if prepared.work is not None and prepared.work.bytes_moved:
        figures["gb_per_s"] = prepared.work.bytes_moved / mean / 1000
    if prepared.work is not None and prepared.work.flops:
        figures["gflop_per_s"] = prepared.work.flops / mean / 1000
    report.say(
        f"{kind} canary {canary.name}", holds=mean > 0.5 and statistics.stdev(middle) / mean < 0.05, **figures
    )


def check_numbers(report: Report, driver: CudaDriver) -> None:
    """The kernels compute what their source says, held against the host's own arithmetic."""
    names = ("fill", "negate", "triad", "elementwise", "permute")
    functions = driver.load_functions(
        compile_source(load_nvrtc(), SOURCE, driver.architecture).image, [f"nsight_{name}" for name in names]
    )
    count = 1 << 16
    x, y, out = (DeviceBuffer(driver, 4 * count) for _ in range(3))

    def launch(name: str, *arguments: object) -> tuple[float, ...]:
        values = [c_uint64(one.pointer) if isinstance(one, DeviceBuffer) else one for one in arguments]
        driver.launch(functions[f"nsight_{name}"], 64, THREADS, values)
        driver.synchronize()
        target = x if name == "fill" else out
        return struct.unpack(f"{count}f", driver.read_buffer(target, 4 * count))

    launch("fill", y, c_uint64(count), ctypes.c_uint(2))
    drawn = launch("fill", x, c_uint64(count), ctypes.c_uint(1))
    again = launch("fill", x, c_uint64(count), ctypes.c_uint(1))
    other = struct.unpack(f"{count}f", driver.read_buffer(y, 4 * count))
    negated = launch("negate", x, out, c_uint64(count // 4))
    triad = launch("triad", x, y, out, c_float(3.0), c_uint64(count // 4))
    golden = launch("elementwise", x, out, c_uint64(count))
    driver.launch(
        functions["nsight_permute"], 64, THREADS, [c_uint64(out.pointer), ctypes.c_uint(count.bit_length() - 1)]
    )
    driver.synchronize()
    index = struct.unpack(f"{count}I", driver.read_buffer(out, 4 * count))
    results = {
        "uniform": drawn == again and drawn != other and abs(statistics.fmean(drawn)) < 0.02 and max(drawn) <= 1,
        "negate": all(a == -b for a, b in zip(drawn, negated, strict=True)),
        "triad": all(abs(a + 3 * b - c) < 1e-5 for a, b, c in zip(drawn, other, triad, strict=True)),
        "elementwise": all(abs(value - (5**0.5 - 1) / 2) < 1e-5 for value in golden),
        "permutation": sorted(index) == list(range(count)) and index[:4] != (0, 1, 2, 3),
    }
    report.say("numbers", holds=all(results.values()), **results)


def check_canaries(report: Report, device: DriverGpu, driver: CudaDriver, shrink: int) -> None:
    """All compiled canaries, on a timer of their own."""
    timer = Timer(driver)
    began_s = time.perf_counter()
    made = make_compiled_canaries(driver, shrink)
    report.say("compile", holds=not made.why_none, seconds=time.perf_counter() - began_s, compiler=made.compiler)
    for canary in made.canaries:
        with report.attempt(f"compiled canary {canary.name}"):
            check_canary(report, "compiled", canary, device, timer)


def check_torch(report: Report, device: DriverGpu, driver: CudaDriver, shrink: int) -> None:
    """Torch shares the context, and its canaries' times stand beside the compiled ones'."""
    import torch  # noqa: PLC0415 - asked for

    torch.cuda.set_device(0)
    x = torch.ones(1 << 20, device="cuda")
    driver.synchronize()
    properties = torch.cuda.get_device_properties(0)
    report.say(
        "torch",
        holds=float(x.sum()) == 1 << 20 and f"GPU-{properties.uuid}" == driver.uuid,
        l2_bytes=properties.L2_cache_size,
        version=torch.__version__,
    )
    timer = Timer(driver)
    for canary in make_canaries(torch, "cuda", properties.L2_cache_size, shrink):
        with report.attempt(f"torch canary {canary.name}"):
            check_canary(report, "torch", canary, device, timer)
            device.release()


def main() -> int:
    """Runs all checks; returns 1 if one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="measure torch's canaries, too")
    parser.add_argument("--full", action="store_true", help="canaries of full size")
    options = parser.parse_args()
    report = Report()
    driver = load_driver()
    if driver is None:
        report.say("driver", holds=False, error="libcuda.so.1 offers no device; see pytest-nsight doctor")
        return 1
    device = DriverGpu(driver, root_pid=0)
    report.say("device", holds=not device.why_no_canaries, why=device.why_no_canaries, **device.environment)
    shrink = 1 if options.full else EIGHTH
    checks: dict[str, Callable[[], None]] = {
        "identity": lambda: check_identity(report, driver),
        "memory": lambda: check_memory(report, driver),
        "waiting": lambda: check_waiting(report, driver),
        "floor": lambda: check_floor(report, device),
        "numbers": lambda: check_numbers(report, driver),
        "flush": lambda: check_flush(report, device, driver, Timer(driver)),
        "canaries": lambda: check_canaries(report, device, driver, shrink),
    }
    if options.torch:
        checks["torch"] = lambda: check_torch(report, device, driver, shrink)
    for name, check in checks.items():
        with report.attempt(name):
            check()
    print(json.dumps({"failures": report.failures}))
    return int(report.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
