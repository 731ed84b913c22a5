"""SHA-256 of a few kilobytes, without the library of OpenSSL, which takes milliseconds to load.

Of whole files that library is several times as fast; see :mod:`glow_nb.system.file_digests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:  # Python 3.11, and others than CPython
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

__all__ = ["sha256"]
