"""Which route a path leads to."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from holdfast.api.route import PREFIX, Route

AT_ROOT: Final = frozenset(
    {"/livez", "/readyz", "/healthz", "/metrics", "/version", "/openapi.json", "/docs"}
)
"""Where those who watch over processes, and people, look for them; the table has them under the
prefix."""


class Paths:
    """The table as a tree of path segments."""

    def __init__(self, table: Iterable[Route]) -> None:
        self._root = _Place()
        # Paths that name no values, which are those that are asked most, are looked up at once.
        self._plain: dict[str, tuple[Mapping[str, Route], dict[str, str]]] = {}
        for route in table:
            place = self._root
            for segment in route.path.strip("/").split("/"):
                place = place.step(segment)
            if route.method in place.routes:
                raise ValueError(f"{route.method} {route.path} stands twice in the table")
            place.routes[route.method] = route
            if "{" not in route.path:
                self._plain[PREFIX + route.path] = (place.routes, {})

    def find(self, raw_path: str) -> tuple[Mapping[str, Route], dict[str, str]] | None:
        """The routes at a path as it was sent, by method, and the values it names; None where
        there are none."""
        plain = self._plain.get(raw_path)
        if plain is not None:
            return plain
        if raw_path in AT_ROOT:
            raw_path = PREFIX + raw_path
        if not raw_path.startswith(PREFIX + "/"):
            return None
        values: dict[str, str] = {}
        place = self._root
        for raw in raw_path[len(PREFIX) + 1 :].split("/"):
            # Split first: a slash inside a name is sent as %2F and belongs to it.
            segment = unquote(raw)
            following = place.fixed.get(segment)
            if following is None:
                following = place.open
                if following is None or not segment:
                    return None
                values[place.name] = segment
            place = following
        return (place.routes, values) if place.routes else None


class _Place:
    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.fixed: dict[str, _Place] = {}
        self.open: _Place | None = None
        self.name = ""

    def step(self, segment: str) -> "_Place":
        if not segment.startswith("{"):
            return self.fixed.setdefault(segment, _Place())
        name = segment.strip("{}")
        if self.open is None:
            self.open, self.name = _Place(), name
        elif self.name != name:
            raise ValueError(f"{{{name}}} is called {{{self.name}}} elsewhere")
        return self.open
