"""Writes docs/study/README.md from what was recorded: `python -m benchmarks.study.document docs/study/study.json`.

Every number of the document comes from the file, and each table names the command that gives it. Pure.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.study.tables import (
    CATEGORIES,
    OUT_OF_MEMORY,
    Json,
    category_shares,
    clock_ms,
    each_named_picture,
    each_picture,
    find_picture,
    inner_range,
    kernel_ms,
    outer_range,
    per_step,
    percent,
    short_name,
    step_count,
    steps_of,
    write_grid,
    write_table,
)
from benchmarks.study.transformer import BATCH, SIZES, SOFTMAX_FLOPS

SCORE_BYTES = 8
"""A float32 read and one written."""


def main(arguments: Sequence[str]) -> int:
    """Prints the document of a recorded study; returns an exit code."""
    (path,) = arguments
    print(write_document(json.loads(Path(path).read_text(encoding="utf-8"))), end="")
    return 0


def write_document(study: Json) -> str:
    """The document in Markdown.

    Args:
        study: what `python -m benchmarks.study` wrote.
    """
    sections = (
        _head, _forward, _top_kernels, _other_kernels, _training, _attention, _limits, _rates, _fusion, _uncertainty,
    )  # fmt: skip
    return "\n\n".join(section(study) for section in sections) + "\n"


def _head(study: Json) -> str:
    device = next(iter(study["models"].values()))["device"]
    sizes = write_table(
        ["model", "layers", "width", "heads", "parameters"],
        [
            [name, SIZES[name].layers, SIZES[name].width, SIZES[name].heads, f"{model['parameters'] / 1e6:,.0f} M"]
            for name, model in study["models"].items()
        ],
    )
    return f"""# The study of the models

Five decoders, {BATCH} sequences of 128 to 1024 tokens, inference and training steps (AdamW) in TF32, on one {device}, with
nsys {study["nsys"]} and torch {study["torch"]}, {study["recorded"]}. Nothing here is estimated. On a machine with a GPU:

```console
$ python -m benchmarks.study FOLDER                             # records; some minutes
$ python -m benchmarks.study.document FOLDER/study.json         # writes this page
$ pytest-nsight show FOLDER/small.nsys-rep --range "context512 infer"   # every number of a model and context
```

Attention is written out, so that its parts are kernels of their own (`benchmarks/study/transformer.py`).

{sizes}"""


def _forward(study: Json) -> str:
    def cell(model: Json, context: str) -> str:
        return f"{per_step(outer_range(find_picture(model, context, 'infer')), 'wall_ns') / 1e6:.2f}"

    def clocks(model: Json, context: str) -> str:
        measured = find_picture(model, context, "infer")
        nsys_ms = per_step(outer_range(measured), "wall_ns") / 1e6
        profiled, plain = (clock_ms(model, side, "infer", context) for side in ("profiled", "plain"))
        return f"{profiled:.2f} ({percent(profiled / nsys_ms - 1)}), {plain:.2f} ({percent(plain / nsys_ms - 1)})"

    differences = [
        abs(clock_ms(model, "profiled", "infer", context) / (per_step(outer_range(picture), "wall_ns") / 1e6) - 1)
        for model, context, picture in each_picture(study, "infer")
    ]
    return f"""## (a) How long is a forward pass, and does Python's clock agree?

Milliseconds from the start of a pass to the end of its synchronisation, mean of
{step_count(study)} passes (`show REPORT --range "context512 infer"`, table of ranges, host):

{write_grid(study, "infer", cell)}

Python's clock around the same passes, and around those of a process without a profiler; in brackets the difference to
the table above:

{write_grid(study, "infer", clocks)}

Under nsys Python's clock and the ranges differ by at most {percent(max(differences), signed=False)}: it is the same pass.
What the profiler adds to a pass is under [uncertainty](#how-sure-are-these-numbers)."""


def _top_kernels(study: Json) -> str:
    rows = []
    for kind in ("infer", "train"):
        for name, model, context, picture in each_named_picture(study, kind):
            top, steps = picture["kernels"][0], steps_of(model, picture)
            total = sum(row["total_ns"] for row in picture["categories"])
            rows.append(
                [
                    name, context, _KIND_NAMES[kind], f"`{short_name(top['name'])}`", top["category"],
                    f"{top['calls'] / steps:.0f}", f"{top['total_ns'] / steps / 1e6:.2f}",
                    percent(top["total_ns"] / total, signed=False),
                ]
            )  # fmt: skip
    head = ["model", "context", "step", "kernel", "category", "calls", "ms", "share"]
    both = [
        (
            find_picture(model, context, "infer")["kernels"][0]["name"],
            find_picture(model, context, "train")["kernels"][0]["name"],
        )
        for _, model, context, _ in each_named_picture(study, "train")
    ]
    same = sum(one == other for one, other in both)
    return f"""## (b) Which kernel takes the most time, and how often does it run?

Per step (`show REPORT --range "context512 infer"` and `"context512 train"`, table of kernels):

{write_table(head, rows)}

It is the same kernel in inference and in training in {same} of {len(both)} cases."""


_KIND_NAMES = {"infer": "inference", "train": "training"}


def _other_kernels(study: Json) -> str:
    rows = [
        [name, context, *category_shares(picture), f"{kernel_ms(model, picture):.2f}"]
        for name, model, context, picture in each_named_picture(study, "infer")
    ]
    return f"""## (c) What besides products of matrices takes time in a forward pass?

Shares of the kernel time of a pass (`show REPORT --range "context512 infer"`, kernel time by category):

{write_table(["model", "context", *CATEGORIES, "kernels, ms"], rows)}"""


def _training(study: Json) -> str:
    rows = []
    for name, model, context, picture in each_named_picture(study, "train"):
        steps = steps_of(model, picture)
        device = [
            inner_range(picture, part)["device_ns"] / steps / 1e6 for part in ("forward", "backward", "optimizer")
        ]
        gemm_infer, gemm_train = (
            category_shares(find_picture(model, context, kind))[0] for kind in ("infer", "train")
        )
        whole = outer_range(picture)
        rows.append(
            [
                name, context, f"{per_step(whole, 'wall_ns') / 1e6:.2f}", f"{whole['device_ns'] / steps / 1e6:.2f}",
                *(f"{value:.2f}" for value in device), gemm_infer, gemm_train,
                category_shares(picture)[CATEGORIES.index("optimizer")],
            ]
        )  # fmt: skip
    rows += [
        [name, context, OUT_OF_MEMORY, *["-"] * 7]
        for name, model in study["models"].items()
        for context in model["clocks"]["profiled"]["infer"]
        if context not in model["clocks"]["profiled"]["train"]
    ]
    head = [
        "model", "context", "step, ms", "device, ms", "forward", "backward", "optimizer", "GEMM in inference",
        "GEMM in training", "optimizer's kernels",
    ]  # fmt: skip
    return f"""## (d) How does training divide, and what becomes of the products' share?

Milliseconds of a training step: `step` by the host's clock, the others time of the device, copies included; shares of
kernel time (`show REPORT --range "context512 train"`, table of ranges and kernel time by category):

{write_table(head, rows)}"""


def _attention(study: Json) -> str:
    rows = []
    for name, model, context, picture in each_named_picture(study, "infer"):
        steps = steps_of(model, picture)
        flops = SIZES[name].attention_flops(int(context))
        softmax = flops["attention_softmax"]
        parts = ("attention_scores", "attention_mask", "attention_softmax", "attention_value")
        times_ms = [inner_range(picture, part)["kernel_ns"] / steps / 1e6 for part in parts]
        products_ms = times_ms[0] + times_ms[3]
        products = flops["attention_scores"] + flops["attention_value"]
        rows.append(
            [
                name, context, *(f"{value:.3f}" for value in times_ms), f"{times_ms[2] / products_ms:.2f}",
                f"{softmax / products:.3f}", f"{products / products_ms / 1e9:.1f}", f"{softmax / times_ms[2] / 1e9:.1f}",
                f"{SCORE_BYTES * softmax / SOFTMAX_FLOPS / times_ms[2] / 1e6:,.0f}",
            ]
        )  # fmt: skip
    head = [
        "model", "context", "scores, ms", "mask, ms", "softmax, ms", "values, ms", "softmax by products: time",
        "FLOP", "products, TFLOP/s", "softmax, TFLOP/s", "softmax, GB/s",
    ]  # fmt: skip
    return f"""## (e) Softmax against the products of attention: time and FLOP

Kernel time of a forward pass, all layers (`show REPORT --range "context512 infer" --work attention_scores=...FLOP
--work attention_softmax=...FLOP --work attention_value=...FLOP`). A product of (T, d) and (d, T) counts 2 T T d FLOP,
softmax {SOFTMAX_FLOPS} for each score, and its GB/s count each score as read once and written once:

{write_table(head, rows)}

Softmax does a fiftieth of the operations and takes a fifth to three fifths of the time: it reads and writes every
score and computes little with it, so that memory limits it, while the products reuse what they load."""


def _limits(study: Json) -> str:
    rows = []
    for kind in ("infer", "train"):
        for name, _, context, picture in each_named_picture(study, kind):
            whole, device = picture["bottlenecks"][0], picture["devices"][0]
            rows.append(
                [
                    name, context, _KIND_NAMES[kind], percent(device["utilisation"], signed=False), whole["limit"],
                    whole["evidence"].partition(":")[2].strip() or whole["evidence"], whole["remedy"],
                ]
            )  # fmt: skip
    return f"""## What limits a step, and what to try?

`show REPORT --range "context512 infer"`, its first lines; utilisation is busy time by wall time of the device:

{write_table(["model", "context", "step", "utilisation", "limit", "evidence", "to try"], rows)}"""


def _rates(study: Json) -> str:
    def cell(kind: str) -> Callable[[Json, str], str]:
        def of(model: Json, context: str) -> str:
            step_s = clock_ms(model, "plain", kind, context) / 1e3
            return f"{BATCH * int(context) / step_s:,.0f}"

        return of

    return f"""## Latency against throughput

Tokens a second from end to end, by Python's clock in the process without a profiler. Inference:

{write_grid(study, "infer", cell("infer"))}

Training:

{write_grid(study, "train", cell("train"))}

The latency of a pass hardly grows while the host limits it, so that longer contexts cost nothing there: throughput
grows with the context until the device is busy."""


def _fusion(study: Json) -> str:
    rows = []
    for label in study["fusion"]["unfused"]["pictures"]:
        values = {}
        for name, side in study["fusion"].items():
            picture, steps = side["pictures"][label], side["clocks"]["profiled"]["steps"]
            moved = side["clocks"]["profiled"]["bytes"][label]
            kernel_ms = sum(row["total_ns"] for row in picture["categories"]) / steps / 1e6
            values[name] = (
                per_step(outer_range(picture), "wall_ns") / 1e6,
                kernel_ms,
                picture["devices"][0]["utilisation"],
                moved / (kernel_ms * 1e6),
            )
        (wall, kernel, use, rate), (wall_2, kernel_2, use_2, rate_2) = values["unfused"], values["fused"]
        rows += [
            [label, "total time, ms", f"{wall:.3f}", f"{wall_2:.3f}", percent(wall_2 / wall - 1)],
            [label, "kernel time, ms", f"{kernel:.3f}", f"{kernel_2:.3f}", percent(kernel_2 / kernel - 1)],
            [label, "GPU utilisation", percent(use, signed=False), percent(use_2, signed=False), ""],
            [label, "required bytes by kernel time, GB/s", f"{rate:.0f}", f"{rate_2:.0f}", percent(rate_2 / rate - 1)],
        ]  # fmt: skip
    norm_and_product = [
        [label, f"`{short_name(row['name'])}`", row["category"], f"{row['total_ns'] / side['clocks']['profiled']['steps'] / 1e3:.1f}"]
        for label in study["fusion"]["unfused"]["pictures"]
        for side in (study["fusion"]["unfused"],)
        for row in side["pictures"][label]["kernels"][:4]
    ]  # fmt: skip
    return f"""## RMSNorm and Linear of llama-7b, unfused and fused

1 x 128, 8 x 512 and 32 x 2048 tokens, bfloat16 (`python -m benchmarks.study.program unfused`, `fused`; `show REPORT --range
"few tokens"`):

{write_table(["tokens", "metric", "unfused", "fused", "change"], rows)}

Where the unfused time goes, microseconds of a call:

{write_table(["tokens", "kernel", "category", "us"], norm_and_product)}

`pytest-nsight compare unfused.nsys-rep fused.nsys-rep --format markdown`:

{study["changes"].strip()}"""


def _uncertainty(study: Json) -> str:
    rows = []
    for kind in ("infer", "train"):
        for name, model, context, _ in each_named_picture(study, kind):
            plain, profiled = (model["clocks"][side][kind][context] for side in ("plain", "profiled"))
            mean = statistics.fmean(plain)
            rows.append(
                [
                    name, context, _KIND_NAMES[kind], f"{mean:.2f}",
                    percent(statistics.fmean(profiled) / mean - 1), percent(statistics.stdev(plain) / mean, signed=False),
                    percent(statistics.stdev(plain) / mean / len(plain) ** 0.5, signed=False),
                ]
            )  # fmt: skip
    head = ["model", "context", "step", "without nsys, ms", "profiler adds", "SD of steps", "standard error"]
    return f"""## How sure are these numbers?

Three sources, each by itself: what the profiler adds (Python's clock under nsys against a process without it), what differs
from step to step (the system: SD of {step_count(study)} steps without nsys), and the statistical error of their mean. Processes
differ as well, which one process of each cannot show; the [validation study](../validation/README.md) measures that for
kernels.

{write_table(head, rows)}"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
