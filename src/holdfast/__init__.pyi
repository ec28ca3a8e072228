from holdfast.client import errors as errors
from holdfast.client.opening import open as open
from holdfast.client.task import task as task

__version__: str
__all__ = ["__version__", "errors", "open", "task"]
