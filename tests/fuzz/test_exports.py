"""Exports of Nsight Systems with anything in them: a trace, or one sentence. Never a traceback or a long wait."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_nsight.collectors.nsys.read import read, read_explained
from pytest_nsight.collectors.nsys.scrub import scrub
from pytest_nsight.model.errors import TraceError
from pytest_nsight.trace.measures import measure
from tests.fuzz.campaign import fuzz
from tests.trace.trace_builder import VINTAGES, TraceBuilder

pytestmark = pytest.mark.slow

FEW = 60
LONGEST_S = 20.0

HOSTILE: tuple[Any, ...] = (
    None, 0, -1, 1, 2**24, 2**31, -(2**31), 2**32, 2**48, 2**62, 2**63 - 1, -(2**63), 0.5, 1e300, float("inf"),
    "", "x", "7", "\x00", "\udcff".encode(errors="surrogateescape"), b"\x00" * 64, b"\xff", "a" * 100_000,
    "\x1b[31m\n::error::", "pytest_nsight",
)  # fmt: skip


def build(vintage: str) -> TraceBuilder:
    builder = TraceBuilder(vintage).domain("pytest_nsight").range("case", 0, 1000, payload=1)
    for at in range(10, 500, 40):
        builder.launch("k<float>", at, at + 20, api_at=at - 5)
    return builder.graph(600, 700, api_at=590) if vintage >= "2024" else builder


def check(path: Path) -> bool:
    """Whether the file is an export; if not, the refusal is one printable sentence."""
    began_s = time.monotonic()
    try:
        trace = read_explained(path)
        measure(trace)
    except TraceError as error:
        message = str(error)
        assert message.isprintable(), f"the refusal is no sentence: {message[:3000]!r}"
        assert len(message) < 2000 + len(str(path)), f"the refusal is no sentence: {message[:3000]!r}"
        return False
    finally:
        assert time.monotonic() - began_s < LONGEST_S
    return True


@pytest.mark.parametrize("vintage", VINTAGES)
def test_what_is_spoiled_here_is_read_as_it_is(vintage: str, tmp_path: Path) -> None:
    assert check(build(vintage).write(tmp_path / "trace.sqlite"))


def spoil_values(path: Path, generator: random.Random) -> None:
    """Puts hostile values into some cells, whatever their columns declare."""
    with closing(sqlite3.connect(path)) as database:
        tables = [
            name
            for (name,) in database.execute(
                "select name from sqlite_master where type = 'table' and name not like '%y'"
            )
        ]
        for _ in range(generator.randint(1, 4)):
            table = generator.choice(tables)
            columns = [row[1] for row in database.execute(f'pragma table_info("{table}")')]
            (rows,) = database.execute(f'select count(*) from "{table}"').fetchone()
            where = "" if generator.random() < 0.3 else f" where rowid = {generator.randint(1, max(1, rows))}"
            value = generator.choice(HOSTILE)
            try:
                database.execute(f'update "{table}" set "{generator.choice(columns)}" = ?{where}', (value,))
            except sqlite3.IntegrityError:
                continue
        database.commit()


def spoil_schema(path: Path, generator: random.Random) -> None:
    """Drops, renames, doubles and replaces tables and columns."""
    with closing(sqlite3.connect(path)) as database:
        tables = [
            name
            for (name,) in database.execute(
                "select name from sqlite_master where type = 'table' and name not like '%y'"
            )
        ]
        table = generator.choice(tables)
        columns = [row[1] for row in database.execute(f'pragma table_info("{table}")')]
        column = generator.choice(columns)
        statement = generator.choice(
            [
                f'drop table "{table}"',
                f'alter table "{table}" rename column "{column}" to "{column}2"',
                f'alter table "{table}" drop column "{column}"',
                f'alter table "{table}" rename to "{table}2"; create view "{table}" as select * from "{table}2"',
                f'create table "x\n"" y" as select * from "{table}"',
                f'insert into "{table}" select * from "{table}"',
                f'delete from "{table}"',
                f'alter table "{table}" add column "more" text default (hex(zeroblob(100)))',
                f'drop table "{table}"; create table "{table}" ("{column}" as (hex(randomblob(100000000))))',
            ]
        )
        try:
            database.executescript(statement)
        except sqlite3.Error:
            return


def spoil_bytes(path: Path, generator: random.Random) -> None:
    """Overwrites, cuts or repeats bytes."""
    data = bytearray(path.read_bytes())
    for _ in range(generator.randint(1, 8)):
        at = generator.randrange(len(data))
        length = generator.choice((1, 2, 4, 64, 4096))
        kind = generator.randrange(4)
        if kind == 0:
            data[at : at + length] = generator.randbytes(length)
        elif kind == 1:
            data[at : at + length] = data[:length]
        elif kind == 2:
            data[at : at + 1] = bytes([data[at] ^ 1 << generator.randrange(8)])
        else:
            del data[at : at + length]
            data = data or bytearray(b"x")
    path.write_bytes(bytes(data))


SPOILERS: tuple[Callable[[Path, random.Random], None], ...] = (spoil_values, spoil_schema, spoil_bytes)


def fuzz_once(seed: int, folder: Path) -> bool:
    generator = random.Random(seed)
    path = folder / "trace.sqlite"
    path.unlink(missing_ok=True)
    build(generator.choice(VINTAGES)).write(path)
    # What works on rows comes first: it would not open what has other bytes.
    spoilers = sorted((generator.choice(SPOILERS) for _ in range(generator.randint(1, 3))), key=SPOILERS.index)
    for spoil in spoilers:
        spoil(path, generator)
    with contextlib.suppress(TraceError):
        scrub(path, folder / "scrubbed.sqlite")
    return check(path)


@pytest.mark.slow
@settings(max_examples=FEW, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_spoiled_export_gives_a_trace_or_one_sentence(seed: int, tmp_path: Path) -> None:
    fuzz_once(seed, tmp_path)


def test_new_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz(lambda seed: fuzz_once(seed, tmp_path), capsys)


def test_pages_that_lead_to_one_another_are_not_followed_for_ever(tmp_path: Path) -> None:
    """All pointers of a tree's root lead to one page, and those of that page to one more."""
    path = tmp_path / "trace.sqlite"
    builder = TraceBuilder()
    for at in range(0, 2_000_000, 100):
        builder.launch("k", at, at + 20, api_at=at)
    builder.write(path)
    data = bytearray(path.read_bytes())
    page_bytes = int.from_bytes(data[16:18], "big")
    inner = [at for at in range(page_bytes, len(data), page_bytes) if data[at] == 5]
    assert inner, "the table is a tree"
    for at in inner:
        cells = int.from_bytes(data[at + 3 : at + 5], "big")
        pointers = [int.from_bytes(data[at + 12 + 2 * n : at + 14 + 2 * n], "big") for n in range(cells)]
        child = data[at + pointers[0] : at + pointers[0] + 4]
        for pointer in pointers:
            data[at + pointer : at + pointer + 4] = child
        data[at + 8 : at + 12] = (at // page_bytes + 1).to_bytes(4, "big")
    path.write_bytes(bytes(data))

    check(path)


@pytest.mark.slow
def test_a_large_sound_export_is_not_taken_for_a_hostile_one(tmp_path: Path) -> None:
    builder = TraceBuilder().range("case", 0, 10_000_000)
    for at in range(0, 10_000_000, 200):
        builder.launch(f"kernel_{at % 3000}", at, at + 20, api_at=at)

    assert len(read(builder.write(tmp_path / "trace.sqlite")).launches) == 50_000
