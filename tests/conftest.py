"""What every test shares: one printed seed, the tiers, and the blessing of expected files.

A run is decided by its seed. It is 0 unless HOLDFAST_SEED says otherwise, it is printed at the
top of the run and beside every failure, and the same seed gives the same run.
"""

import os
import random
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
SEED_VARIABLE = "HOLDFAST_SEED"
FAST_S = 0.25
SLOWEST = 10
# Real processes and simulated clusters take the time they take.
UNHURRIED = ("e2e", "faults", "simulation")
SEED = pytest.StashKey[int]()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs tests in the background has interrupts ignored, and every program that a
    # test starts and interrupts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def is_seed_given() -> bool:
    return bool(os.environ.get(SEED_VARIABLE))


def seed_of_this_run() -> int:
    text = os.environ.get(SEED_VARIABLE) or "0"
    if not (text.isascii() and text.isdigit()):
        raise pytest.UsageError(f"{SEED_VARIABLE} must be a whole number, not {text!r}")
    return int(text)


def choose_hypothesis_profile() -> None:
    """Without a seed hypothesis repeats itself exactly; with one it follows the seed.

    There is no deadline, because a busy machine is no bug, and no example database, because a
    run may not depend on the run before it.
    """
    shared = settings(
        derandomize=not is_seed_given(), deadline=None, database=None, print_blob=True
    )
    settings.register_profile("fast", parent=shared, max_examples=100)
    settings.register_profile("slow", parent=shared, max_examples=1_000)
    settings.register_profile("soak", parent=shared, max_examples=20_000)
    settings.load_profile("fast")


choose_hypothesis_profile()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless",
        action="store_true",
        help="rewrite expected files with what the code says now; read the diff",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[SEED] = seed_of_this_run()
    # The plugin of hypothesis reads this option right after us.
    if is_seed_given() and config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = str(config.stash[SEED])


def pytest_report_header(config: pytest.Config) -> str:
    return f"holdfast seed: {config.stash[SEED]} (replay with SEED={config.stash[SEED]})"


def room_of(path: Path) -> str:
    """The folder of `tests/` that a test file lives in, or nothing for one at the top."""
    parts = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ()
    return parts[0] if len(parts) > 1 else ""


# First, so that `-m e2e` already sees the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if room_of(item.path) == "e2e":
            item.add_marker("e2e")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("seed", f"{SEED_VARIABLE}={item.config.stash[SEED]}"))
    is_excused = room_of(item.path) in UNHURRIED or item.get_closest_marker("slow") is not None
    if call.when == "call" and not is_excused and item.get_closest_marker("soak") is None:
        report.user_properties.append(("fast_tier_s", call.duration))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the tests too slow for their tier. It never fails them: time is the machine's."""
    late = sorted(
        (seconds, report.nodeid)
        for report in terminalreporter.getreports("passed")
        for name, seconds in report.user_properties
        if name == "fast_tier_s" and seconds > FAST_S
    )
    if late:
        terminalreporter.section(f"over {FAST_S} s: make them faster or mark them slow")
        for seconds, nodeid in reversed(late[-SLOWEST:]):
            terminalreporter.write_line(f"{seconds:6.2f} s  {nodeid}")
        if len(late) > SLOWEST:
            terminalreporter.write_line(f"and {len(late) - SLOWEST} more")


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed that decides this run."""
    return pytestconfig.stash[SEED]


@pytest.fixture
def dice(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Dice of this test alone: the order and choice of other tests cannot change its throws."""
    return random.Random(f"{seed}:{request.node.nodeid}")


@pytest.fixture(scope="session")
def blessing(pytestconfig: pytest.Config) -> bool:
    """Whether expected files are to be rewritten instead of compared."""
    return bool(pytestconfig.getoption("--bless"))
