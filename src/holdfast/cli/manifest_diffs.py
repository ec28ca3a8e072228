"""`holdfast diff -f`: what applying a manifest would change, line by line."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any, Final

import yaml

from holdfast.cli.errors import REFUSED
from holdfast.cli.manifests import Manifest, manifests_in
from holdfast.cli.output import TABLES, View, clean_text, emit_list, note, wants_color
from holdfast.cli.reading import Look
from holdfast.cli.sources import Source
from holdfast.runtimes.manifest import declared

PAINTS: Final = {"+": "32", "-": "31", "@": "36"}


def would_change(look: Look, files: Sequence[str], form: str) -> int:
    """Show it; 1 where something would change, 0 where nothing would."""
    manifests = manifests_in(files)
    with look.source() as source:
        views = [_compared(source, manifest) for manifest in manifests]
        changed = [view for view in views if view["change"] != "unchanged"]
        drawn = "".join(line for view in changed for line in _drawn(view))
        emit_list(form, "runtimes", views, drawn)
        if form in TABLES and not changed:
            note(f"nothing would change {source.place}")
    return REFUSED if changed else 0


def _compared(source: Source, manifest: Manifest) -> View:
    name = manifest.runtime.name
    known = source.runtimes.one(name)
    before = None
    if known is not None:
        marks = {name: known["metadata"][name] for name in ("labels", "annotations")}
        before = {"metadata": marks, "spec": known["spec"]}
    runtime = manifest.runtime
    after = declared(runtime.spec, runtime.labels, runtime.annotations)
    change = "created" if before is None else "configured" if before != after else "unchanged"
    return {"name": name, "change": change, "before": before, "after": after}


def _drawn(view: View) -> Iterator[str]:
    before, after = _lines(view["before"]), _lines(view["after"])
    name = f"runtime/{view['name']}"
    held = f"{name} (as it is)" if view["before"] is not None else "/dev/null"
    paints = PAINTS if wants_color() else {}
    for line in unified_diff(before, after, held, f"{name} (as it would be)", lineterm=""):
        shown = clean_text(line)
        paint = paints.get(line[:1])
        yield f"\x1b[{paint}m{shown}\x1b[0m\n" if paint else f"{shown}\n"


def _lines(spec: Any) -> list[str]:
    if spec is None:
        return []
    text: str = yaml.safe_dump(spec, allow_unicode=True, sort_keys=False, width=10_000)
    return text.splitlines()
