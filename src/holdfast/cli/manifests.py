"""Manifests in files: read with care, and every mistake told with its file, line and field.

A file is YAML or JSON and may hold several documents. It is bounded, also in what its aliases
would come to when they are written out, because a page of them can be more than any memory holds.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml
from msgspec import Struct

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.manifest import ClassRuntime, decode

MOST_BYTES: Final = 1024 * 1024
MOST_NODES: Final = 100_000
DEEPEST: Final = 50
STDIN: Final = "-"
_STEP: Final = re.compile(r'\["([^"]*)"\]|([^.\[\]]+)|\[(\d+)\]')


class Manifest(Struct, frozen=True):
    """One document of a file: the runtime it declares, and the document as it was written."""

    place: str
    runtime: ClassRuntime
    content: dict[str, Any]


file_option = click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE",
    help="The file of the manifest, YAML or JSON; - is what is piped in. Repeat for more.",
)  # fmt: skip


def manifests_in(files: Sequence[str]) -> list[Manifest]:
    """Every manifest of these files, in order. Nothing is asked of anybody before all are good."""
    found = [manifest for file in files for manifest in _in_file(file)]
    places: dict[str, str] = {}
    for manifest in found:
        before = places.setdefault(manifest.runtime.name, manifest.place)
        if before != manifest.place:
            raise Trouble(
                f"{manifest.place}: metadata.name: {before} declares {manifest.runtime.name!r} "
                "too. Give one of them another name.",
                USAGE,
            )
    if not found:
        raise Trouble(f"{_called(files[0])} holds no manifest; {_example()}", USAGE)
    return found


def _in_file(file: str) -> Iterator[Manifest]:
    for node, content in _documents(file):
        place = f"{_called(file)}:{node.start_mark.line + 1}"
        runtime = decode(content)
        if isinstance(runtime, Problem):
            line = _line_of(node, runtime.path)
            raise _wrong(file, line, str(runtime))
        yield Manifest(place, runtime, content)


def _documents(file: str) -> Iterator[tuple[yaml.Node, Any]]:
    loader = yaml.SafeLoader(_text(file))
    try:
        while loader.check_node():
            node = loader.get_node()
            _check(file, node)
            content = loader.construct_document(node)
            if content is not None:
                yield node, content
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, (error.context, error.problem)))
        raise _wrong(file, 1 if mark is None else mark.line + 1, said) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = str(error).splitlines()[0] if str(error) else "it is nested too deeply"
        raise _wrong(file, 1, said) from None
    finally:
        loader.dispose()


def _text(file: str) -> str:
    try:
        if file == STDIN:
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise Trouble(f"there is no file {file}; {_example()}", NOT_FOUND) from None
    if len(content) > MOST_BYTES:
        raise Trouble(
            f"{_called(file)} has more than {MOST_BYTES} bytes. Apply its documents one by one.",
            USAGE,
        )
    try:
        # A tab between the parts of JSON is a space; YAML knows none there.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Trouble(f"{_called(file)} holds no text. {_example()}", USAGE) from None
    return text.replace("\t", " ") if text.lstrip().startswith("{") else text


def _check(file: str, node: yaml.Node) -> None:
    """What is written out of a document is bounded, has an end, and says nothing twice."""
    sizes: dict[int, int] = {}
    _size(file, node, sizes, 0)


def _size(file: str, node: yaml.Node, sizes: dict[int, int], depth: int) -> int:
    """How many nodes there are with every alias written out."""
    line = node.start_mark.line + 1
    known = sizes.get(id(node))
    if known is not None:
        if not known:
            raise _wrong(file, line, "an alias stands inside of what it names")
        return known
    if depth > DEEPEST:
        raise _wrong(file, line, "it is nested too deeply")
    sizes[id(node)] = 0
    size = 1 + sum(_size(file, each, sizes, depth + 1) for each in _inside(file, node))
    if size > MOST_NODES:
        said = f"with its aliases written out it has more than {MOST_NODES} parts"
        raise _wrong(file, line, said)
    sizes[id(node)] = size
    return size


def _inside(file: str, node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name in seen and name != "<<":
                raise _wrong(file, key.start_mark.line + 1, f"{name}: it is said twice")
            seen.add(name)
            yield value


def _line_of(node: yaml.Node, path: str) -> int:
    """The line where a field stands, or what it would stand in."""
    line: int = node.start_mark.line + 1
    for quoted, plain, index in _STEP.findall(path):
        name = quoted or plain
        if isinstance(node, yaml.MappingNode):
            pair = next((each for each in node.value if each[0].value == name), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _wrong(file: str, line: int, said: str) -> Trouble:
    checked = f"`holdfast diff -f {file}`" if file != STDIN else "`holdfast diff -f -`"
    return Trouble(f"{_called(file)}:{line}: {said}. Mend it; {checked} checks it again.", USAGE)


def _called(file: str) -> str:
    return "stdin" if file == STDIN else file


def _example() -> str:
    return "name one with -f FILE. docs/runtimes.md has a manifest to begin with."
