"""Workers as people see them: what each offers, and how much of it is in use."""


def test_a_worker_with_nothing_to_do_occupies_nothing(inside):
    async def story(house):
        await house.exchange(1)
        shown = (await house.get("/workers/w1")).value
        assert (shown["state"], shown["occupied"], shown["slots"]) == ("IDLE", 0, 2)
        await house.submit(1)
        held = (await house.exchange(2)).value["runs"]
        shown = (await house.get("/workers/w1")).value
        assert (len(held), shown["state"], shown["occupied"]) == (1, "BUSY", 1)

    inside(story)
