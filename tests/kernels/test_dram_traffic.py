from __future__ import annotations

import pytest

from benchmarks.dram_traffic import FUSED_NORM_BYTES, UNFUSED_NORM_BYTES, Kernel, parse_kernels, render

# As `ncu --csv --print-units base` writes it: what the program prints stands before the table.
TABLE = """==PROF== Connected to process 42 (/usr/bin/python3.12)
==PROF== Profiling "_rms_norm_linear_factors_kernel" - 0: 0%....50%....100% - 1 pass
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",\
"CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","42","python3.12","127.0.0.1","_rms_norm_linear_factors_kernel","1","7","(256, 1, 1)","(65536, 1, 1)","0",\
"9.0","Command line profiler metrics","dram__bytes_read.sum","byte","536,912,384"
"0","42","python3.12","127.0.0.1","_rms_norm_linear_factors_kernel","1","7","(256, 1, 1)","(65536, 1, 1)","0",\
"9.0","Command line profiler metrics","dram__bytes_write.sum","byte","1,024"
"1","42","python3.12","127.0.0.1","void gemm<a, b>(c)","1","7","(256, 1, 1)","(132, 1, 1)","0",\
"9.0","Command line profiler metrics","dram__bytes_read.sum","byte","600"
"1","42","python3.12","127.0.0.1","void gemm<a, b>(c)","1","7","(256, 1, 1)","(132, 1, 1)","0",\
"9.0","Command line profiler metrics","dram__bytes_write.sum","byte","500"
"""


def test_the_table_gives_each_launch_with_what_it_read_and_wrote() -> None:
    assert parse_kernels(TABLE) == [
        Kernel("_rms_norm_linear_factors_kernel", 536_912_384, 1024),
        Kernel("void gemm<a, b>(c)", 600, 500),
    ]


def test_output_without_a_table_is_shown() -> None:
    with pytest.raises(ValueError, match="gave no table: ==ERROR== The application returned an error code"):
        parse_kernels("==ERROR== The application returned an error code (1).")


def test_a_launch_without_a_metric_is_named() -> None:
    with pytest.raises(ValueError, match=r"gave a launch without 'dram__bytes_write\.sum'"):
        parse_kernels("\n".join(TABLE.splitlines()[:4]))


def test_the_normalisation_is_what_a_variant_moves_beyond_the_product() -> None:
    product = Kernel("gemm", 600_000_000, 500_000_000)
    norm = Kernel("norm", 2_000_000_000, 1_000_000_000)
    factors = Kernel("factors", 600_000_000, 0)

    text = render({"product": [product], "fused": [factors, product], "unfused": [norm, product]}, rows=8)

    assert "counted by Nsight Compute: unfused 3000.0 MB, fused 600.0 MB: 80.0% less" in text


def test_by_formula_the_fused_normalisation_moves_an_eighteenth() -> None:
    assert UNFUSED_NORM_BYTES == 18 * FUSED_NORM_BYTES
