"""What docs/testing.md shows works as it is shown, in a program of its own and with the fixture."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
PLUGIN = "holdfast.testing.plugin"
PATIENCE_S = 120


def files_shown() -> dict[str, str]:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(blocks)


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With our plugin and no other: they take seconds to load. A source tree that was never
    installed has no entry points, so it is named."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_every_example_of_the_page_runs(tmp_path: Path) -> None:
    shown = files_shown()
    assert {"shop.py", "test_shop.py", "test_troubles.py"} <= set(shown)
    for name, source in shown.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    done = run_pytest(tmp_path, "--strict-markers", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(len(re.findall(r"^def test_", source, re.MULTILINE)) for source in shown.values())
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= count


def test_pytest_finds_the_plugin_wherever_holdfast_is_installed() -> None:
    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"holdfast": PLUGIN}


@pytest.mark.slow
def test_a_blow_that_never_fell_fails_the_test_that_ordered_it(tmp_path: Path) -> None:
    (tmp_path / "test_vain.py").write_text(
        "def test_vain(holdfast):\n    holdfast.kill_worker(during='commit')\n", encoding="utf-8"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "this never happened: kill_worker(during='commit')" in done.stdout


def test_who_does_not_use_the_plugin_pays_nothing_for_it() -> None:
    told = subprocess.run(
        [sys.executable, "-c", f"import {PLUGIN}, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    ).stdout.split()
    loaded = [name for name in told if name.startswith("holdfast.") and "core" in name]
    assert loaded == []
    assert "msgspec" not in told
