"""A state machine as an SVG drawing of our own: no dependency, no measuring of fonts.

The states stand in one column. Arrows downward run on the right, arrows upward on the left, each
in a lane of its own, so that no two lie on each other; every end of an arrow has its own row of
its box. Labels stand between box and lanes, where no lane ever passes, so nothing overlaps by
construction. Lines may cross; text is never crossed by another arrow's lane.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from re import compile as pattern
from typing import Final

from msgspec import Struct

Edge = tuple[str, str, Sequence[str]]

_ROW: Final = 22
_LINE: Final = 15
_LANE: Final = 14
_GAP: Final = 30
_PAD: Final = 16
_LETTER: Final = 7.2
"""The widest a letter of the label font gets; too wide does no harm."""

_STYLE: Final = (
    "text{font-family:ui-sans-serif,system-ui,sans-serif;font-size:12px;fill:#1f2937}"
    ".state{font-weight:600;font-size:13px}.label{fill:#4b5563}.name{font-size:15px}"
    "rect{fill:#f8fafc;stroke:#334155;stroke-width:1.5}.final{fill:#ecfdf5;stroke:#047857}"
    "path{fill:none;stroke:#64748b;stroke-width:1.3}.head{fill:#64748b;stroke:none}"
    "circle{fill:#334155}"
    "@media (prefers-color-scheme:dark){text{fill:#e5e7eb}.label{fill:#9ca3af}"
    "rect{fill:#1e293b;stroke:#94a3b8}.final{fill:#064e3b;stroke:#34d399}circle{fill:#e5e7eb}}"
)


_SIZE: Final = pattern(r'width="([\d.]+)" height="([\d.]+)"')


class _Port(Struct):
    """One end of an arrow: its side, and the height its row needs."""

    edge: int
    is_source: bool
    height: int
    y: float = 0.0


class _Box(Struct):
    """One state with the rows of its two sides."""

    name: str
    right: list[_Port]
    left: list[_Port]
    top: float = 0.0
    height: float = 0.0


class _Layout(Struct):
    boxes: list[_Box]
    edges: list[Edge]
    width: float
    left: float
    right: float
    span: float
    bottom: float


def svg_of(
    title: str,
    states: Sequence[str],
    initial: str,
    final: Iterable[str],
    edges: Iterable[Edge],
) -> str:
    """The whole drawing as text. States are drawn in the order given, the first at the top."""
    layout = _lay_out(states, list(edges))
    rests = dict.fromkeys(final)
    size = f'width="{layout.span:g}" height="{layout.bottom:g}"'
    view = f'viewBox="0 0 {layout.span:g} {layout.bottom:g}"'
    label = f'role="img" aria-label="States of the {escape(title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} {size} {label}>',
        f"<title>States of the {escape(title)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    # Several pictures may stand in one file, so each says whose it is, above all its lines.
    place = f'x="{_PAD}" y="{_PAD}" text-anchor="start"'
    parts.append(f'<text class="name" {place}>{escape(title)}</text>')
    parts.extend(_edge_parts(layout))
    for box in layout.boxes:
        parts.extend(_box_parts(box, layout, box.name == initial, box.name in rests))
    return "\n".join([*parts, "</svg>"]) + "\n"


def stacked(drawings: Sequence[str]) -> str:
    """Several drawings of ours as one, below each other: a file holds one picture."""
    sizes = [_SIZE.search(drawing) for drawing in drawings]
    parts, width, y = [], 0.0, 0.0
    for drawing, size in zip(drawings, sizes, strict=True):
        parts.append(drawing.replace("<svg ", f'<svg y="{y:g}" ', 1))
        if size is not None:
            width, y = max(width, float(size[1])), y + float(size[2])
    head = f'viewBox="0 0 {width:g} {y:g}" width="{width:g}" height="{y:g}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {head}>', *parts, "</svg>"]) + "\n"


def _lay_out(states: Sequence[str], edges: list[Edge]) -> _Layout:
    place = {state: rank for rank, state in enumerate(states)}
    boxes = [_Box(state, [], []) for state in states]
    for number, (source, target, labels) in enumerate(edges):
        down = place[target] >= place[source]
        height = _ROW + _LINE * (len(labels) - 1)
        for state, is_source in ((source, True), (target, False)):
            box = boxes[place[state]]
            rows = box.right if down else box.left
            rows.append(_Port(number, is_source, height if is_source else _ROW))
    y = float(_PAD + _GAP)
    for box in boxes:
        y = _stack(box, y) + _GAP
    width = max(_LETTER * 1.2 * len(state) for state in states) + 2 * _PAD
    going = [(place[b] >= place[a], labels) for a, b, labels in edges]
    rightmost = _margin([labels for down, labels in going if down])
    leftmost = _margin([labels for down, labels in going if not down])
    span = leftmost + width + rightmost + 2 * _PAD
    return _Layout(boxes, edges, width, _PAD + leftmost, _PAD + leftmost + width, span, y)


def _margin(labels: Sequence[Sequence[str]]) -> float:
    """The room beside the boxes: the widest label, then a lane for each arrow."""
    widest = max((len(line) for lines in labels for line in lines), default=0)
    return widest * _LETTER + _LANE * (len(labels) + 2) + _PAD if labels else 0.0


def _stack(box: _Box, top: float) -> float:
    """Give every row of a box its height; the lower end of the box is the answer."""
    tall = [sum(port.height for port in rows) for rows in (box.right, box.left)]
    box.top, box.height = top, max(*tall, 2 * _ROW) + _PAD
    for rows in (box.right, box.left):
        # Arrows that come in stand above those that go out: the eye reads downward.
        rows.sort(key=lambda port: port.is_source)
        y = top + (box.height - sum(port.height for port in rows)) / 2
        for port in rows:
            port.y = y + port.height - _ROW / 3
            y += port.height
    return top + box.height


def _ports(layout: _Layout) -> dict[tuple[int, bool], _Port]:
    return {
        (port.edge, port.is_source): port
        for box in layout.boxes
        for rows in (box.right, box.left)
        for port in rows
    }


def _edge_parts(layout: _Layout) -> list[str]:
    place = {box.name: rank for rank, box in enumerate(layout.boxes)}
    ports = _ports(layout)
    sides: dict[bool, list[int]] = {True: [], False: []}
    for number, (source, target, _) in enumerate(layout.edges):
        sides[place[target] >= place[source]].append(number)
    parts: list[str] = []
    for down, numbers in sides.items():
        # Short arrows take the inner lanes, so long ones go around them.
        numbers.sort(key=lambda number: _reach(layout.edges[number], place))
        for lane, number in enumerate(numbers):
            parts.extend(_one_edge(layout, ports, number, down, lane, len(numbers)))
    return parts


def _reach(edge: Edge, place: Mapping[str, int]) -> tuple[int, int]:
    return abs(place[edge[1]] - place[edge[0]]), place[edge[0]]


def _one_edge(
    layout: _Layout,
    ports: Mapping[tuple[int, bool], _Port],
    number: int,
    down: bool,
    lane: int,
    lanes: int,
) -> list[str]:
    """From the box out to the lane, along it, and back to the other box; the label at the start."""
    sign = 1 if down else -1
    edge_x = layout.right if down else layout.left
    outer = layout.span - _PAD if down else _PAD
    x = outer - sign * _LANE * (lanes - lane)
    y1, y2 = ports[(number, True)].y, ports[(number, False)].y
    turn = 5.0 if y2 > y1 else -5.0
    path = (
        f"M{edge_x:g} {y1:g}H{x - sign * 5:g}Q{x:g} {y1:g} {x:g} {y1 + turn:g}"
        f"V{y2 - turn:g}Q{x:g} {y2:g} {x - sign * 5:g} {y2:g}H{edge_x + sign * 8:g}"
    )
    tip = f"M{edge_x:g} {y2:g}l{sign * 9} -4.5v9z"
    anchor = "start" if down else "end"
    lines = layout.edges[number][2]
    texts = [
        f'<text class="label" x="{edge_x + sign * 12:g}" '
        f'y="{y1 - 5 - _LINE * (len(lines) - 1 - row):g}" text-anchor="{anchor}">'
        f"{escape(line)}</text>"
        for row, line in enumerate(lines)
    ]
    return [f'<path d="{path}"/>', f'<path class="head" d="{tip}"/>', *texts]


def _box_parts(box: _Box, layout: _Layout, is_initial: bool, is_final: bool) -> list[str]:
    middle = (layout.left + layout.right) / 2
    kind = ' class="final"' if is_final else ""
    corner, size = (layout.left, box.top), (layout.width, box.height)
    frame = 'x="{:g}" y="{:g}" width="{:g}" height="{:g}" rx="10"'.format(*corner, *size)
    place = f'x="{middle:g}" y="{box.top + box.height / 2 + 4:g}" text-anchor="middle"'
    parts = [
        f"<rect{kind} {frame}/>",
        f'<text class="state" {place}>{escape(box.name)}</text>',
    ]
    if is_initial:
        y = box.top - 20
        parts.append(f'<circle cx="{middle:g}" cy="{y:g}" r="5"/>')
        parts.append(f'<path d="M{middle:g} {y + 5:g}V{box.top - 8:g}"/>')
        parts.append(f'<path class="head" d="M{middle:g} {box.top:g}l-4.5 -9h9z"/>')
    return parts
