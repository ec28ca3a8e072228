"""What a server tells of its checks and of its disk, and what it refuses for the lack of room."""

import sys
from pathlib import Path

import pytest

from holdfast.coordinator.room import Space

FOUND = '{"position":3,"since":0,"seconds":0.5,"violations":["J1 1: cell 9 is no state"]}'


def test_a_check_is_made_when_asked_for_and_told_everywhere(
    inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{FOUND}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    async def story(house):
        assert (await house.get("/doctor")).value["check"] is None
        checks = (await house.get("/readyz?verbose")).value["checks"]
        assert checks["invariants"] == "not checked yet"
        made = (await house.post("/doctor/check")).value["check"]
        assert made["violations"] == ["J1 1: cell 9 is no state"]
        assert (await house.get("/doctor")).value["check"] == made
        checks = (await house.get("/readyz?verbose")).value["checks"]
        assert checks["invariants"] == "1 violated: J1"
        text = (await house.get("/metrics")).content.decode()
        assert "\nholdfast_invariant_violations 1\n" in text
        assert "\nholdfast_check_position 3\n" in text
        assert "\nholdfast_checks_total 1\n" in text

    inside(story)


def test_a_server_without_room_refuses_work_for_now_and_says_when_to_come_back(inside) -> None:
    async def story(house):
        await house.submit()
        room = house.served.room
        room._look = lambda: Space(2 * 1024**3, 10**13)
        room.adjust(room._settings)
        assert (await house.get("/doctor")).value["disk"]["short"] == ""
        room._look = lambda: Space(1_000_000_000, 10**13)
        room.adjust(room._settings)
        told = await house.post("/jobs", {"command": {"argv": ["true"]}, "count": 1})
        assert (told.status, told.value["code"]) == (503, "disk_low")
        assert told.headers["retry-after"] == "10"
        assert (await house.post("/jobs/1/cancel", {})).status == 200
        assert (await house.get("/readyz?verbose")).value["checks"]["disk"].startswith("disk_low")
        text = (await house.get("/metrics")).content.decode()
        assert "\nholdfast_disk_free_bytes 1000000000\n" in text
        assert '\nholdfast_disk_short{reason="disk_low"} 1\n' in text
        room._look = lambda: Space(1_000, 10**13)
        room.adjust(room._settings)
        told = await house.post("/queues/default/pause", {})
        assert (told.status, told.value["code"]) == (503, "disk_full")
        assert (await house.get("/jobs")).status == 200

    inside(story)
