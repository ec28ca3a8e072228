"""The planted mistakes themselves: each fits the code, and a share of them is caught here."""

from pathlib import Path

import pytest

from holdfast.testing.planting import Caught, Misplanted, Plant, page, planted, plants_of, try_plant

ROOT = Path(__file__).parents[2]
PLANTS = plants_of(ROOT)
SHARE = 5


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_mistake_fits_the_code_as_it_is(plant: Plant) -> None:
    """A table that the code has left behind would plant nothing, and prove nothing."""
    for file, source in planted(ROOT, plant.edits).items():
        compile(source, str(file), "exec")
    assert bool(plant.tests) == bool(plant.why)


def test_there_are_enough_of_them_and_no_two_of_one_name() -> None:
    names = [plant.name for plant in PLANTS]
    assert len(set(names)) == len(names) >= 30


def test_a_mistake_that_the_code_has_left_behind_is_told() -> None:
    gone = [Plant(name="x", about="", edits=()).edits, PLANTS[0].edits]
    assert planted(ROOT, gone[0]) == {}
    with pytest.raises(Misplanted, match="is there 0 times"):
        planted(ROOT, (*gone[1], *gone[1]))


def test_the_page_of_the_mistakes_names_each_of_them() -> None:
    told = (ROOT / "docs" / "plants.md").read_text()
    assert [plant.name for plant in PLANTS if f"| {plant.name} |" not in told] == []


def test_what_nobody_notices_is_told_so_on_the_page() -> None:
    missed = Caught(PLANTS[0].name, False, "nobody", 60, 1.0, "")
    assert "**nobody**" in page(PLANTS, [missed], "2026-01-01")


@pytest.mark.slow
@pytest.mark.parametrize("place", range(SHARE))
def test_a_planted_mistake_is_noticed(place: int, seed: int) -> None:
    """Another share of them with every seed."""
    plant = PLANTS[(seed * SHARE + place) % len(PLANTS)]
    caught = try_plant(ROOT, plant)
    assert caught.is_caught, f"nobody noticed {plant.name} in {plant.seeds} seeds"


@pytest.mark.soak
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_every_planted_mistake_is_noticed(plant: Plant) -> None:
    caught = try_plant(ROOT, plant)
    assert caught.is_caught, f"nobody noticed {plant.name} in {plant.seeds} seeds"
