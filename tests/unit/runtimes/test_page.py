"""The page about runtimes names everything there is."""

from pathlib import Path
from typing import get_args

import pytest

from holdfast.runtimes import actions as a
from holdfast.runtimes import spec as s
from holdfast.runtimes.reasons import MESSAGES
from holdfast.runtimes.status import ConditionType, Phase
from holdfast.runtimes.templates import TEMPLATES

PAGE = (Path(__file__).parents[3] / "docs" / "runtimes.md").read_text(encoding="utf-8")
PARTS = (s.Spec, s.Function, s.Health, s.Resources, s.Metrics, s.Rollout, s.Placement, s.Restarts,
         s.Timeouts)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *Phase,
        *ConditionType,
        *MESSAGES,
        *(kind.__name__ for kind in get_args(a.Action)),
        *TEMPLATES,
    ],
)
def test_the_page_names_every_word_that_users_meet(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_the_page_names_every_field_of_a_manifest(part):
    for field in part.__struct_encode_fields__:
        assert any(f"{sign}{field}" in PAGE for sign in ("`", ".")), field
