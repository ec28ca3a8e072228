"""Where `holdfast serve` leaves the token of whoever started it, and its address beside it.

Commands, programs and workers of the same user find both here. The token is for the server that
wrote it and for this machine: it is never sent to a stranger.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

NEAR: Final = ("127.0.0.1", "::1", "localhost")


def usual_token_file() -> Path:
    import platformdirs  # noqa: PLC0415 - only where nobody named a file

    return Path(platformdirs.user_config_dir("holdfast")) / "token"


def address_file(token_file: Path) -> Path:
    return token_file.with_name(token_file.name + ".server")


def is_near(url: str) -> bool:
    """Whether a server is on this machine."""
    return url.startswith("unix:") or urlsplit(url).hostname in NEAR


def own_address() -> str:
    """Where the server of this user was last told to listen; empty where there was none."""
    return _text(address_file(usual_token_file()))


def own_token(url: str) -> str:
    """The token for this server, where it is ours; empty for a stranger."""
    if not is_near(url) and url != own_address():
        return ""
    return _text(usual_token_file())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
