"""Headless Chromium: a page as the browser has built it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def dump(page: str, folder: Path, *, script: str = "", blocks_scripts: bool = False) -> str:
    """The page as Chromium has built it, after `script` has run; only blocked scripts are on its console."""
    if CHROMIUM is None:
        if os.environ.get("PYTEST_NSIGHT_REQUIRE_CHROMIUM") == "1":
            pytest.fail("PYTEST_NSIGHT_REQUIRE_CHROMIUM=1, but Chromium is not installed")
        pytest.skip("Chromium is not installed")
    if script:
        page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        page = page.replace("</body>", f"<script>{script}</script></body>")
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    flags += "disable-component-update disable-sync disable-dev-shm-usage enable-logging=stderr"
    command = [CHROMIUM, *(f"--{flag}" for flag in flags.split()), f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert ("CONSOLE" in done.stderr) == blocks_scripts, done.stderr
    return done.stdout
