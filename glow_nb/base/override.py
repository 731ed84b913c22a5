"""The mark of methods that override others, for modules that a network on the disk starts with.

Only checkers of types read it, and ``typing_extensions`` takes a while to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override
else:
    Method = TypeVar("Method", bound=Callable[..., Any])

    def override(method: Method) -> Method:
        """Return *method*."""
        return method
