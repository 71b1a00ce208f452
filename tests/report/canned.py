"""One finished session with every kind of verdict: what all reports are tested on."""

from __future__ import annotations

import dataclasses
import math

from pytest_nsight.model.comparison import Basis, Comparison, NoiseLevel, RunLevel, SlowerKernel
from pytest_nsight.model.roofline import Datasheet, Limits
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Clocks, RunSummary, Subject, Work
from pytest_nsight.model.verdicts import SessionResult, ShapeChange, Verdict, VerdictKind

ENVIRONMENT = {
    "gpu": "NVIDIA H200",
    "driver": "570.86.15",
    "collector": "nsys",
    "torch": "2.8.0+cu128",
    "nsys": "2025.3.1",
    "python": "3.12.3",
    "cpu": "Intel(R) Xeon(R) Platinum 8488C",
}
FUSED = Shape("kernel", "_add_rms_norm_fused", "_add_rms_norm_fused_0d1d", (4096, 1, 1), (256, 1, 1), 32, 1024)
ADD = Shape(
    "kernel", "vectorized_elementwise_kernel<4, CUDAFunctor_add<bfloat16>>", "", (8192, 2, 1), (128, 1, 1), 24
)
COPY = Shape("memcpy", "device to device")


def comparison(baseline_ns: float, ratio: float, half_width: float, p: float, **other: object) -> Comparison:
    """A comparison whose interval is `ratio` plus and minus `half_width`."""
    numbers: dict[str, object] = {
        "metric": "kernel",
        "baseline_ns": baseline_ns,
        "now_ns": baseline_ns * ratio,
        "ratio": ratio,
        "low": ratio - half_width,
        "high": ratio + half_width,
        "p_slower": p,
        "p_faster": 1 - p,
        "adjusted_p_slower": p,
        "adjusted_p_faster": 1 - p,
        "band": 0.02,
        "mde": 4 * half_width,
        "standard_error": half_width / 1.8,
        "degrees_of_freedom": 12.0,
        "run_sd": half_width / 1.2,
        "baseline_runs": 5,
        "new_runs": 9,
    }
    return Comparison(**{**numbers, **other})  # type: ignore[arg-type]


def basis(**values: object) -> Basis:
    """The numbers behind a comparison: two stored runs and two new ones on one board."""
    runs = tuple(
        RunLevel(
            number >= 2,
            f"r{number}",
            "20260201-120000" if number < 2 else "20260301-120000",
            "GPU-5b7e7a4c",
            math.log(24_400) + 0.01 * number,
            0.001,
            0.0,
            None,
            None,
            None,
            True,
        )
        for number in range(4)
    )
    numbers: dict[str, object] = {
        "difference": 0.02,
        "median_difference": 0.02,
        "material": math.log(1.02),
        "margin": math.log(1.03),
        "floor_ns": 32.0,
        "compared_subjects": 12,
        "prior_scale": 1.0,
        "prior_degrees_of_freedom": 4.0,
        "levels": (NoiseLevel("run", 0.004, 9.0),),
        "level_error": 0.0,
        "level_degrees_of_freedom": 0.0,
        "canary_shift": None,
        "canary_error": None,
        "canary_scatter": None,
        "canary_degrees_of_freedom": None,
        "canaries": (),
        "looks": (),
        "runs": runs,
    }
    return Basis(**{**numbers, **values})  # type: ignore[arg-type]


def verdict(
    kind: VerdictKind,
    case: str,
    sentence: str,
    compared: Comparison | None = None,
    now_ns: float | None = None,
    **other: object,
) -> Verdict:
    """A verdict on a case of perf_tests/test_<its function>.py."""
    module, _, part = case.removeprefix("test_").partition("/")
    subject = Subject(f"perf_tests/test_{module.split('[')[0]}.py::test_{module}", part)
    now = compared.now_ns if compared else now_ns
    return Verdict(subject, kind, sentence, now, compared, **other)  # type: ignore[arg-type]


def summary(subject: Subject, now_ns: float, number: int) -> RunSummary:
    """The run of that number, five rounds around `now_ns`."""
    kernel = tuple(round(now_ns) + 32 * step for step in (-2 + number, 1, 0, -1, 3))
    return RunSummary(
        subject=subject,
        run=f"20260301-120000-{number}",
        session="20260301-120000",
        board="GPU-5b7e7a4c",
        rounds={"kernel": kernel, "wall": tuple(ns + 8_000 for ns in kernel)},
        shapes=(ShapeUse(FUSED, 1, round(now_ns)),),
        clocks=Clocks(sm_mhz=1980, power_w=212.5, temperature_c=41, throttled=0.0),
        environment=ENVIRONMENT,
        recorded="2026-03-01T12:00:00+00:00",
        commit="4be90d0c+",
    )


def session(verdicts: tuple[Verdict, ...], **other: object) -> SessionResult:
    """A session of two runs that came to these verdicts."""
    values: dict[str, object] = {
        "session": "20260301-120000",
        "recorded": "2026-03-01T12:00:00+00:00",
        "collector": "nsys",
        "environment": ENVIRONMENT,
        "verdicts": verdicts,
        "runs": tuple(
            summary(found.subject, found.now_ns, number)
            for number in (1, 2)
            for found in verdicts
            if found.now_ns is not None
        ),
    }
    return SessionResult(**{**values, **other})  # type: ignore[arg-type]


def full(**other: object) -> SessionResult:
    """Every kind of verdict, in the order of collection."""
    verdicts = (
        _verdict_softmax(),
        _verdict_rms_norm(),
        verdict(
            VerdictKind.REGRESSION,
            "test_train_step/backward",
            "kernel time 1.40 -> 3.22 ms (+130 %, band 2 %)",
            comparison(1_400_000, 2.3, 0.04, 1e-14),
        ),
        _verdict_add_rms_norm(),
        verdict(
            VerdictKind.IMPROVEMENT,
            "test_swiglu[fused-8192]",
            "kernel time 98.1 -> 91.0 us (-7.2 %); keep it with --nsight-save",
            comparison(98_100, 0.928, 0.006, 1 - 1e-6),
        ),
        verdict(
            VerdictKind.UNCHANGED,
            "test_train_step/forward",
            "equal within 3 %",
            comparison(850_400, 0.9997, 0.0024, 0.6),
        ),
        verdict(
            VerdictKind.INCONCLUSIVE,
            "test_gelu[tiny-100%-a|b]",
            "kernel time 2.10 -> 2.15 us (+2.4 %), not settled; 4 more baseline runs would do",
            comparison(2_100, 1.024, 0.041, 0.12),
        ),
        verdict(
            VerdictKind.ENVIRONMENT,
            "test_matmul[32768x4096x4096-bf16-tensor_cores-split_k_serial-persistent]",
            "throttled in 8 of 9 runs (sw_power_cap); let the GPU cool or raise the power limit",
            now_ns=1_603_000,
        ),
        verdict(
            VerdictKind.NO_BASELINE,
            "test_cumsum[1048576]",
            "no baseline for nvidia-h200; save one with --nsight-save",
            now_ns=17_300,
        ),
        verdict(
            VerdictKind.CLAIM,
            "test_layer_norm[unfused]",
            "faster_than: 1.04 times as fast as unfused, 1.2 claimed",
            comparison(44_000, 1.001, 0.002, 0.2),
        ),
        verdict(VerdictKind.ENVIRONMENT, "test_crashes", "no rounds: the test failed in run 1"),
        verdict(VerdictKind.SAVED, "test_dropout[0.5]", "5 runs saved", now_ns=12_650),
    )
    return session(
        verdicts,
        **{
            "notes": ("3 kernels ran outside of every range: their time is in no case.",),
            "saved": ("baselines/nvidia-h200/perf_tests.test_dropout.json",),
            **other,
        },
    )


def _verdict_softmax() -> Verdict:
    compared = comparison(285_000, 1.0007, 0.0019, 0.31)
    return verdict(VerdictKind.UNCHANGED, "test_softmax[fused-8192x8192-bf16]", "equal within 3 %", compared)


def _verdict_rms_norm() -> Verdict:
    case = "test_rms_norm[fused-4096x4096-bf16]"
    sentence = (
        f"{case}: kernel time 24.4 -> 26.1 us (+7.0 %, band 2 %, 5+9 runs, p 2e-6); "
        "slower kernels: _rms_norm_fused, reduce_kernel"
    )
    slower = (SlowerKernel("_rms_norm_fused", 20_100.0, 21_500.0), SlowerKernel("reduce_kernel", 4_300.0, 4_610.0))
    compared = comparison(24_400, 1.07, 0.009, 2e-6, slower_kernels=slower)
    return verdict(VerdictKind.REGRESSION, case, sentence, compared)


def _verdict_add_rms_norm() -> Verdict:
    listing = (
        ": - 1 launch: _add_rms_norm_fused   + 2 launches: vectorized_elementwise_kernel<4, "
        "CUDAFunctor_add<bfloat16>> (x2)   + 1 copy: device to device"
    )
    return verdict(
        VerdictKind.STRUCTURE,
        "test_add_rms_norm[fused-4096x4096-bf16]",
        f"launches changed, 1 -> 2 per round, as when a fusion is lost{listing}; "
        "kernel time 31.0 -> 50.2 us (+62.0 %)",
        comparison(31_000, 1.62, 0.02, 1e-9),
        changes=(ShapeChange(FUSED, 1, 0), ShapeChange(ADD, 0, 2), ShapeChange(COPY, 0, 1)),
        listing=listing,
    )


def quiet(number: int = 3, **other: object) -> SessionResult:
    """A session in which nothing changed."""
    compared = comparison(24_400, 1.0004, 0.0021, 0.4)
    return session(
        tuple(
            verdict(VerdictKind.UNCHANGED, f"test_rms_norm[{variant}]", "equal within 3 %", compared)
            for variant in range(number)
        ),
        **other,
    )


WORK = {
    "test_rms_norm[fused-b32x2048]": (260_000, Work(2 * 65536 * 4096 * 2, 4 * 65536 * 4096)),
    "test_rms_norm[unfused-b32x2048]": (1_310_000, Work(2 * 65536 * 4096 * 2, 4 * 65536 * 4096)),
    "test_linear[fused-b32x2048]": (3_050_000, Work(1_107_296_256, 2 * 65536 * 4096 * 4096)),
    "test_gather": (12_300, Work(bytes_moved=1_048_576)),
    "test_step/forward": (850_000, None),
}


def worked(**other: object) -> SessionResult:
    """A session whose cases declare their work."""
    verdicts = tuple(
        verdict(VerdictKind.UNCHANGED, case, "equal within 3 %", comparison(ns, 1.0004, 0.0021, 0.4))
        for case, (ns, _) in WORK.items()
    )
    declared = {found.subject: work for found, (_, work) in zip(verdicts, WORK.values(), strict=True)}
    result = session(verdicts)
    fused, unfused = (found.subject.case for found in verdicts[:2])
    values: dict[str, object] = {
        "runs": tuple(dataclasses.replace(run, work=declared[run.subject]) for run in result.runs),
        "limits": {"GPU-5b7e7a4c": Limits(4.19e12, 7.9e14)},
        "datasheet": Datasheet(4.8e12, 989e12, "NVIDIA H200 Tensor Core GPU datasheet"),
        "partners": {fused: unfused},
    }
    return dataclasses.replace(result, **{**values, **other})  # type: ignore[arg-type]


def saved_only() -> SessionResult:
    """A session that saves: nothing is judged."""
    verdicts = tuple(
        verdict(VerdictKind.SAVED, f"test_rms_norm[{variant}]", "5 runs saved", now_ns=24_400 * (variant + 1))
        for variant in range(3)
    )
    return session(verdicts, saved=("baselines/nvidia-h200/perf_tests.test_rms_norm.json",))
