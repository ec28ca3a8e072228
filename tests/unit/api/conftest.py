"""A service over a folder of its own, asked without a socket between."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.api.app import Api
from holdfast.api.identity import new_secret
from holdfast.api.limits import Door
from holdfast.api.routes import TABLE
from holdfast.api.service import Service
from holdfast.coordinator.serving import Served
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import take_folder
from holdfast.core import commands as c

TERM_MS = 15_000


class Told:
    """What a request was answered with."""

    def __init__(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.status = status
        self.headers = headers
        self.content = content

    @property
    def value(self) -> Any:
        if self.headers.get("content-type", "").startswith("application/msgpack"):
            return msgspec.msgpack.decode(self.content)
        return json.loads(self.content)

    @property
    def code(self) -> str:
        return str(self.value["code"])


class House:
    """An application and the means to ask it."""

    def __init__(self, served: Served, **options: Any) -> None:
        self.served = served
        self.service = Service(served, options.pop("quota", None))
        options = {"door": Door((), any_host=False), "table": TABLE, **options}
        self.api = Api(self.service, **options)
        self.admin = ""

    async def token(self, *scopes: str, worker: str = "", expires_wall: int = 0) -> str:
        secret = new_secret()
        await self.served.ask(
            lambda k: k.execute(
                c.IssueToken(
                    token_id=secret.token_id,
                    name="test",
                    digest=secret.digest,
                    scopes=scopes,
                    worker=worker,
                    expires_wall=expires_wall,
                ),
                actor="test",
            )
        )
        return secret.text

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        token: str | None = None,
        prefix: str = "/api/v1",
        leave: bool = False,
        gone: asyncio.Event | None = None,
        heard: "asyncio.Queue[bytes] | None" = None,
        **headers: str,
    ) -> Told:
        """Ask. `leave`: the asker goes away at once; `gone`: when it is set. `heard` is given
        each piece of the answer as it comes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        told = {"host": "localhost", **headers}
        if body is not None and "content_type" not in headers:
            told["content-type"] = "application/json"
        token = self.admin if token is None else token
        if token:
            told["authorization"] = f"Bearer {token}"
        path, _, query = (prefix + target).partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in told.items()],
            "server": ("localhost", 7700),
        }
        sent: list[dict[str, Any]] = []
        asked = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if asked:
                return asked.pop()
            if not leave:
                await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if heard is not None and message["type"] == "http.response.body":
                heard.put_nowait(message["body"])

        await self.api(scope, receive, send)
        start, *rest = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return Told(start["status"], answered, b"".join(message["body"] for message in rest))

    async def get(self, target: str, **rest: Any) -> Told:
        return await self.ask("GET", target, **rest)

    async def post(self, target: str, body: Any = None, **rest: Any) -> Told:
        return await self.ask("POST", target, {} if body is None else body, **rest)

    async def submit(self, count: int = 1, **rest: Any) -> str:
        body = {"command": {"argv": ["true"]}, "count": count, **rest}
        told = await self.post("/jobs", body)
        assert told.status == 201, told.content
        return str(told.value["id"])

    async def exchange(self, number: int, *, leave: bool = False, **rest: Any) -> Told:
        """What a worker of two slots says, as a person with curl would. `leave`: it does not stay
        to hear what there is to do."""
        message = {
            "worker": "w1",
            "incarnation": 1,
            "number": number,
            "seen": number - 1,
            "capacity": {"slots": 2, "cpus_milli": 2_000, "memory_bytes": 0, "gpus": 0},
            "started": [],
            "done": [],
            "failed": [],
            "released": [],
            "held": [],
            "occupied": 0,
            "draining": False,
            **rest,
        }
        return await self.post("/exchange", message, leave=leave)


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[House]:
    served = Served(take_folder(folder, term_ms=TERM_MS), Settings(), term_ms=TERM_MS)
    served.engine.start()
    house = House(served, **options)
    try:
        house.admin = await house.token("admin")
        yield house
    finally:
        await house.service.output.close()
        await served.close()


Story = Callable[[House], Awaitable[None]]


@pytest.fixture
def inside(tmp_path: Path) -> Callable[..., None]:
    """Tell a story inside a house; told again, it is the same folder after a restart."""

    def tell(story: Story, **options: Any) -> None:
        async def whole() -> None:
            async with opened(tmp_path, **options) as house:
                await story(house)

        asyncio.run(whole())

    return tell


@pytest.fixture
def make_house() -> Callable[..., House]:
    """A house over a coordinator that the test has made itself."""
    return House
