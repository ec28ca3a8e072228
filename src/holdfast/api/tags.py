"""ETags as a request names them."""


def names(header: str, tag: str) -> bool:
    """Whether a list of tags has this one; `*` is any, and a weak one is none."""
    return bool(tag) and (header.strip() == "*" or tag in map(str.strip, header.split(",")))
