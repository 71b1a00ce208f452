"""Tables that fit a width."""

from __future__ import annotations

from pytest_nsight.report.table import Column
from pytest_nsight.show.layout import Section


def test_a_group_without_columns_makes_no_table_of_names_alone() -> None:
    numbers = [Column(header, ["1.00 us", "2.00 us"]) for header in ("kernels", "launches", "copies")]
    section = Section("Ranges", Column("range", ["forward", "backward"], is_number=False), [numbers, numbers, []])

    headers = [line for line in section.render(50).splitlines() if line.startswith("range")]
    assert headers == ["range     kernels  launches   copies"] * 2
