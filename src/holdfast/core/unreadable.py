"""What reading bytes may end with when they are not what they should be.

Text that is none and nesting without end have errors of their own, which are no `DecodeError`:
whoever catches that alone is taken by surprise.
"""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
