"""Modules with a kernel of one name, loaded through the driver: the code that each launch leads to, as JSON."""

from __future__ import annotations

import json
from ctypes import c_uint64

from pytest_nsight.recorders.cupti.library import Cupti
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture
from pytest_nsight.recorders.machine_code.machine_code import read_kernels
from pytest_nsight.worker.cuda_driver import DeviceBuffer, load_driver
from pytest_nsight.worker.nvrtc import compile_source, load_nvrtc

NAME = "one_name"
SOURCE = 'extern "C" __global__ void one_name(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]) * %sf; }'


def read_digest(image: bytes) -> str:
    return read_kernels(image)[NAME].code.digest if image else ""


def main() -> None:
    capture = LaunchCapture(Cupti())
    capture.start()
    driver, library = load_driver(), load_nvrtc()
    x = DeviceBuffer(driver, 4096)
    driver.clear(x)
    compiled = []
    for factor, options in (("2.0", ()), ("3.0", ()), ("2.0", ("--maxrregcount=16",))):
        compiled.append(compile_source(library, SOURCE % factor, driver.architecture, options).image)
        function = driver.load_functions(compiled[-1], [NAME])[NAME]
        driver.launch(function, 1, 32, [c_uint64(x.pointer)])
    driver.synchronize()
    capture.stop()
    found = {
        "compiled": [read_digest(image) for image in compiled],
        "launched": [read_digest(launch.cubin) for launch in capture.launches.values()],
        "functions": [launch.function for launch in capture.launches.values()],
        "reported_bytes": [len(cubin) for cubin in capture.modules.cubins],
        "problems": capture.problems,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
