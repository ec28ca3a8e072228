"""What the loop tells about runtimes, over HTTP: what happened, and numbers."""


def manifest():
    functions = [{"key": "hello", "command": ["serve"], "replicas": 2}]
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": "greeter"},
        "spec": {"template": "dev", "functions": functions},
    }


def test_what_happened_and_what_is_counted_is_told(inside):
    async def story(house):
        assert (await house.get("/runtimes/greeter/events")).code == "not_found"
        told = await house.post("/runtimes", manifest())
        assert told.status == 201
        # Nobody waits: the loop has its turns with the requests.
        while (await house.get("/runtimes/greeter")).value["status"]["phase"] != "progressing":
            pass
        events = (await house.get("/runtimes/greeter/events")).value["events"]
        assert [each["reason"] for each in events] == [
            "Declared", "Applying", "Applied", "AwaitingReadiness",
        ]  # fmt: skip
        assert {each["type"] for each in events} == {"Normal"}
        assert events[0]["first_at"] <= events[-1]["last_at"]
        lines = (await house.get("/metrics")).content.decode().splitlines()
        assert 'holdfast_runtimes{phase="progressing"} 1' in lines
        move = '{source="applying",target="progressing"}'
        assert f"holdfast_runtime_transitions_total{move} 1" in lines
        assert 'holdfast_runtime_conditions{type="Ready",status="False"} 1' in lines
        assert "crm_nfr_enforcement_latency_seconds_count 0" in lines

    inside(story)
