"""Tasks with every kind of effect, and a sink that is a function.

What an attempt writes bears its fencing token, so that whoever looks can tell whose it is.
"""

import json
import os
from contextlib import nullcontext
from typing import Any, Final

import holdfast
from holdfast.testing.steps import DOOM

CALLED_VARIABLE: Final = "HOLDFAST_TEST_CALLED"


def deed(item: dict[str, Any]) -> int:
    """One of everything. `early`: the commit is made before the end, and the block acts;
    `fresh`: the file must be new."""
    context = holdfast.current()
    number, token = item["n"], context.token
    for sink in item["sinks"]:
        context.effect(sink, key=f"key-{number % 2}", body={"n": number, "token": token})
    mode = "x" if item["fresh"] else "w"
    with context.stage(os.path.join(item["outputs"], f"{number}.txt"), mode) as file:
        file.write(str(token))
    with context.commit(result=token) if item["early"] else nullcontext():
        if item["early"]:
            append(item["blocks"], str(number))
            DOOM.reach("in the block")
    return token


def call(effect: holdfast.Effect) -> None:
    """Notes that it was called, as the outside world would."""
    told = {"id": effect.id, "key": effect.key, "body": effect.body}
    append(os.environ[CALLED_VARIABLE], json.dumps(told))
    DOOM.reach("the function is called")


def append(path: str, line: str) -> None:
    """One line, on the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line.encode() + b"\n")
        os.fdatasync(file)
    finally:
        os.close(file)
