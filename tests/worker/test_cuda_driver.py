"""A GPU without torch: the driver's C interface, canaries compiled at run time, and which device a worker takes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_nsight.protocol.job import Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.worker import compiled_canaries, measured_case, nvrtc
from pytest_nsight.worker.canaries import NAMES, Canary
from pytest_nsight.worker.compiled_canaries import SOURCE, make_compiled_canaries
from pytest_nsight.worker.cuda_driver import CudaDriver, CudaDriverError, DeviceBuffer
from pytest_nsight.worker.gpu_devices import DriverGpu
from pytest_nsight.worker.measured_case import MeasuredRun
from pytest_nsight.worker.nvrtc import CompilationError, compile_source, list_candidates, load_nvrtc
from tests.worker.board import Silent
from tests.worker.fake_cuda import ILLEGAL_ADDRESS, KERNELS, SIGNATURES, FakeCuda, FakeNvrtc

SHRINK = 1 << 10


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def driver(cuda: FakeCuda) -> CudaDriver:
    return CudaDriver(cuda)


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> FakeNvrtc:
    fake = FakeNvrtc()
    monkeypatch.setattr(compiled_canaries, "load_nvrtc", lambda: fake)
    return fake


def test_what_the_driver_says_of_the_device(driver: CudaDriver) -> None:
    assert driver.name == "NVIDIA Fake 0"
    assert driver.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (driver.memory_bytes, driver.l2_bytes, driver.multiprocessors) == (80 << 30, 1 << 20, 4)
    assert driver.architecture == (9, 0)
    assert driver.version == "13.0"


def test_a_part_of_a_gpu_is_named_as_nvml_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f")

    assert CudaDriver(FakeCuda()).uuid == "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(("current", "name"), [(0, "NVIDIA Fake 0"), (1001, "NVIDIA Fake 1")])
def test_the_device_is_the_one_that_the_test_has_chosen(current: int, name: str) -> None:
    assert CudaDriver(FakeCuda(devices=2, current=current)).name == name


def test_the_tests_own_context_stays_the_current_one(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.current = 4711
    driver.synchronize()
    buffer = DeviceBuffer(driver, 64)
    driver.clear(buffer)

    assert cuda.current == 4711
    assert cuda.calls.count("cuCtxPushCurrent_v2") == cuda.calls.count("cuCtxPopCurrent_v2") == 3


def test_the_tests_own_context_stays_current_after_an_error_too(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.current, cuda.fails = 4711, {"cuCtxSynchronize": ILLEGAL_ADDRESS}

    with pytest.raises(CudaDriverError, match=r"cuCtxSynchronize failed with error 700") as failure:
        driver.synchronize()
    assert failure.value.code == ILLEGAL_ADDRESS
    assert cuda.current == 4711


def test_no_device_is_an_error_with_its_name() -> None:
    with pytest.raises(CudaDriverError, match=r"cuInit failed with CUDA_ERROR_NO_DEVICE \(100\)"):
        CudaDriver(FakeCuda(devices=0))


def test_memory_is_freed_with_its_buffer_and_a_dead_context_is_no_second_error(
    cuda: FakeCuda, driver: CudaDriver
) -> None:
    first, second = DeviceBuffer(driver, 100), DeviceBuffer(driver, 200)
    assert driver.read_free_bytes() == driver.memory_bytes - 300
    del first
    assert len(cuda.memory) == 1
    cuda.fails["cuMemFree_v2"] = ILLEGAL_ADDRESS
    del second


def test_a_flush_overwrites_twice_the_cache(cuda: FakeCuda, driver: CudaDriver) -> None:
    device = DriverGpu(driver, root_pid=os.getpid())
    device.launch_little()
    (spill,) = cuda.memory.values()
    assert spill.nbytes == 2 << 20
    assert (spill[:4] == 0).all()
    assert (spill[4:] != 0).all()
    device.flush()
    assert (spill == 0).all()


def test_there_is_room_until_the_tests_have_taken_a_sixteenth(driver: CudaDriver, cuda: FakeCuda) -> None:
    device = DriverGpu(driver, root_pid=os.getpid())
    assert device.has_room_to_keep()
    cuda.memory[1] = np.broadcast_to(np.uint8(0), (5 << 30,))
    assert not device.has_room_to_keep()


@pytest.fixture
def canaries(driver: CudaDriver) -> dict[str, Canary]:
    made = make_compiled_canaries(driver, SHRINK)
    assert made.compiler == "nvrtc 13.1"
    return {canary.name: canary for canary in made.canaries}


def test_the_compiled_canaries_are_those_of_torch_by_name(canaries: dict[str, Canary]) -> None:
    assert tuple(canaries) == NAMES
    assert [name for name, canary in canaries.items() if not canary.cold_cache] == ["l2"]


def test_every_kernel_of_the_source_is_in_the_model_of_the_driver() -> None:
    assert set(KERNELS) == set(SIGNATURES) == {f"nsight_{name}" for name in compiled_canaries.KERNELS}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_canary_launches_one_kernel_a_round_and_allocates_nothing(
    cuda: FakeCuda, canaries: dict[str, Canary], name: str
) -> None:
    prepared = canaries[name].prepare()
    allocated, before = len(cuda.memory), len(cuda.launched)

    prepared.body()
    prepared.body()

    assert len(cuda.launched) - before == 2
    assert len(cuda.memory) == allocated
    del prepared
    gc.collect()
    assert not cuda.memory


def test_a_gathered_row_is_read_once(canaries: dict[str, Canary], cuda: FakeCuda) -> None:
    prepared = canaries["gather"].prepare()
    prepared.body()
    source, target, index = (block.view(np.float32) for block in cuda.memory.values())

    assert sorted(index.view(np.uint32)) == list(range(len(index)))
    assert sorted(source) == sorted(target)
    assert not np.array_equal(source, target)


def test_an_old_architecture_does_without_tensor_cores(driver: CudaDriver) -> None:
    driver.architecture = (7, 5)

    names = [canary.name for canary in make_compiled_canaries(driver, SHRINK).canaries]

    assert names == [name for name in NAMES if name != "matmul"]


def test_the_source_is_compiled_for_the_device(compiler: FakeNvrtc, canaries: dict[str, Canary]) -> None:
    assert "--gpu-architecture=sm_90" in compiler.options
    assert compiler.alive == 0


def test_a_source_that_is_refused_names_compiler_and_reason(driver: CudaDriver, monkeypatch) -> None:
    fake = FakeNvrtc(error=6, log=b"pytest_nsight.cu(3): error: no such thing\nmore")
    monkeypatch.setattr(compiled_canaries, "load_nvrtc", lambda: fake)

    device = DriverGpu(driver, root_pid=os.getpid())

    assert device.canaries == ()
    assert device.why_no_canaries == ("nvrtc 13.1 refuses the canaries: pytest_nsight.cu(3): error: no such thing")
    assert device.environment["canaries"] == "none"
    assert fake.alive == 0


def test_without_a_compiler_there_are_no_canaries_and_the_remedy_is_named(
    driver: CudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "list_candidates", lambda _environ: iter(["/nowhere/libnvrtc.so"]))
    monkeypatch.setattr(compiled_canaries, "load_nvrtc", load_nvrtc)

    made = make_compiled_canaries(driver)

    assert made.canaries == ()
    assert "pip install nvidia-cuda-nvrtc-cu12" in made.why_none


@pytest.mark.parametrize(("wants_canaries", "faults"), [(True, 1), (False, 0)])
def test_the_manifest_says_once_why_there_are_no_canaries(
    driver: CudaDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wants_canaries: bool, faults: int
) -> None:
    def missing() -> None:
        raise CompilationError("NVRTC was not found")

    monkeypatch.setattr(compiled_canaries, "load_nvrtc", missing)
    monkeypatch.setattr(measured_case, "current_device", lambda root_pid: DriverGpu(driver, root_pid))
    job = Job("s/001", "s", "", "", "nsys", None, (), (), {}, canaries=wants_canaries)
    run = MeasuredRun(job, Journal(tmp_path / "manifest.jsonl"), Silent(), no_barrier)

    assert run.start_runner() is run.start_runner()

    manifest = read_manifest(tmp_path / "manifest.jsonl")
    assert [fault.text for fault in manifest.canary_faults] == ["NVRTC was not found"] * faults
    assert manifest.device == "NVIDIA Fake 0"


def test_an_image_that_the_driver_refuses_costs_the_canaries_only(cuda: FakeCuda, driver: CudaDriver) -> None:
    cuda.fails["cuModuleLoadData"] = 200

    device = DriverGpu(driver, root_pid=os.getpid())

    assert device.canaries == ()
    assert "cuModuleLoadData failed with error 200" in device.why_no_canaries


def test_wheels_come_first_the_newest_before_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13"):
        (tmp_path / "nvidia" / name).parent.mkdir(parents=True)
        (tmp_path / "nvidia" / name).touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    found = list(list_candidates({"CUDA_HOME": "/opt/cuda"}))

    assert [Path(name).name for name in found[:2]] == ["libnvrtc.so.13", "libnvrtc.so.12"]
    assert found.index("/opt/cuda/lib64/libnvrtc.so") < found.index("libnvrtc.so.13")


def test_the_built_in_functions_of_a_wheel_are_loaded_before_its_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc-builtins.alt.so.13.0"):
        (tmp_path / name).touch()
    loaded: list[str] = []

    def load(name: str) -> FakeNvrtc:
        loaded.append(Path(name).name)
        return FakeNvrtc()

    monkeypatch.setattr(nvrtc, "list_candidates", lambda _environ: iter([str(tmp_path / "libnvrtc.so.13")]))
    monkeypatch.setattr(nvrtc.ctypes, "CDLL", load)

    load_nvrtc()

    assert loaded == ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [(8, 0), (9, 0)])
def test_the_source_compiles(architecture: tuple[int, int]) -> None:
    try:
        library = load_nvrtc()
    except CompilationError as error:
        pytest.skip(str(error))

    image = compile_source(library, SOURCE, architecture).image

    assert image.startswith(b"\x7fELF")
    assert all(name.encode() in image for name in SIGNATURES)


@pytest.mark.slow
def test_a_worker_without_torch_takes_the_gpu_of_the_driver() -> None:
    code = """
import sys
from pytest_nsight.worker import cuda_driver, device, gpu_devices
from tests.worker.fake_cuda import FakeCuda
assert isinstance(device.current_device(), device.CpuDevice), "there is a GPU here"
cuda_driver.ctypes = type("", (), {**vars(cuda_driver.ctypes), "CDLL": lambda name: FakeCuda()})
found = device.current_device()
assert isinstance(found, gpu_devices.DriverGpu), found
assert found.environment["gpu"] == "NVIDIA Fake 0" and "torch" not in found.environment
assert "torch" not in sys.modules, "imported"
"""
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=100, env=environ, cwd=Path(__file__).parents[2]
    )
