"""Objects to which something of this process belongs: they are neither copied nor pickled."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.override import override


class Uncopied:
    """An object that refuses to be copied or pickled: a copy would be none, or would fail later.

    Attributes:
        UNCOPIED: The object, the reason, and the remedy: "a trainer cannot be copied or pickled:
            its states are memory of this process; save it".
    """

    __slots__ = ()
    UNCOPIED: ClassVar[str]

    @override
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse what ``copy.copy``, ``copy.deepcopy`` and ``pickle`` ask for.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(self.UNCOPIED)
