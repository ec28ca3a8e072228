"""A service over a folder of its own, asked without a socket between."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httptools
import msgspec
import pytest
import uvicorn
from uvicorn.server import ServerState

from holdfast.api.app import Api
from holdfast.api.asked import Asked
from holdfast.api.identity import new_secret
from holdfast.api.limits import Door
from holdfast.api.protocol import Talk
from holdfast.api.response import Response, Streamed
from holdfast.api.routes import TABLE
from holdfast.api.service import Service
from holdfast.coordinator.serving import Served
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.taking import take_folder
from holdfast.core import commands as c

TERM_MS = 15_000
PATIENCE_S = 30.0


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
        named = {name.replace("_", "-"): value for name, value in told.items()}
        asked = Asked(method, path, query.encode(), named)
        if content:
            asked.add(content)
        asked.end()
        if leave:
            asked.leave()
        leaving = asyncio.ensure_future(_leave(asked, gone))
        try:
            response = await self.api.respond(asked)
            return Told(*await _heard(response, heard))
        finally:
            leaving.cancel()

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


async def _leave(asked: Asked, gone: asyncio.Event | None) -> None:
    await (gone or asyncio.Event()).wait()
    asked.leave()


async def _heard(
    response: Response | Streamed, heard: "asyncio.Queue[bytes] | None"
) -> tuple[int, dict[str, str], bytes]:
    lines = response.lines.decode("latin-1").splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    if isinstance(response, Response):
        return response.status, headers, response.content
    content = b""
    async for chunk in response.chunks:
        content += chunk
        if heard is not None:
            heard.put_nowait(chunk)
    return 200, headers, content


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


# Over a socket.


class Answer:
    """One answer as the parser finds it."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.content = b""
        self.is_over = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self.content += body

    def on_message_complete(self) -> None:
        self.is_over = True

    @property
    def status(self) -> int:
        return self.parser.get_status_code()

    @property
    def code(self) -> str:
        return json.loads(self.content)["code"]


class Visitor:
    """One connection. `say` and `hear` are all it can do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)

    async def hear(self) -> Answer:
        answer = Answer()
        while not answer.is_over:
            # A byte at a time, so that nothing of the next answer is lost.
            byte = await asyncio.wait_for(self.reader.read(1), PATIENCE_S)
            assert byte, "the connection was closed"
            answer.parser.feed_data(byte)
        return answer

    async def is_let_go(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE_S) == b""
        except ConnectionResetError:
            return True


class Place:
    """A server of connections, and what they are counted in."""

    def __init__(self, host: str, port: int, state: ServerState, house: House) -> None:
        self.state = state
        self.house = house
        self._where = (host, port)
        self._visitors: list[Visitor] = []

    async def visit(self) -> Visitor:
        visitor = Visitor(*await asyncio.open_connection(*self._where))
        self._visitors.append(visitor)
        return visitor

    def request(
        self,
        what: str,
        body: bytes = b"",
        *,
        token: str | None = None,
        length: int | None = None,
        version: str = "1.1",
        **headers: str,
    ) -> bytes:
        told = {"host": "localhost", "content_length": str(len(body) if length is None else length)}
        token = self.house.admin if token is None else token
        if token:
            told["authorization"] = f"Bearer {token}"
        told |= headers
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items() if value]
        return f"{what} HTTP/{version}\r\n{''.join(lines)}\r\n".encode() + body

    async def leave(self) -> None:
        for visitor in self._visitors:
            visitor.writer.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        while self.state.tasks:
            await asyncio.gather(*self.state.tasks, return_exceptions=True)


@asynccontextmanager
async def standing(house: House, respond: Any = None) -> AsyncIterator[Place]:
    state = ServerState()
    config = uvicorn.Config(
        respond or house.api.respond, interface="asgi3", log_config=None, access_log=False
    )
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Talk(config, state, {}), "127.0.0.1", 0)
    place = Place("127.0.0.1", server.sockets[0].getsockname()[1], state, house)
    try:
        yield place
    finally:
        house.service.leave()
        await place.leave()
        server.close()
        await server.wait_closed()


@pytest.fixture
def told(inside) -> Callable[..., None]:
    def tell(story: Callable[[Place], Awaitable[None]], respond=None) -> None:
        async def at_home(house) -> None:
            async with standing(house, respond) as place:
                await story(place)

        inside(at_home)

    return tell
