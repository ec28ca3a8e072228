"""Pickle, behind one door: used only for work whose user asked for it.

Reading a pickle runs whatever code it names. `payloads` loads this module when it meets the
first task of kind `pickle`, and never for any other.
"""

from cloudpickle import dumps, loads

__all__ = ["dumps", "loads"]
