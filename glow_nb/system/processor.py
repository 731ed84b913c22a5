"""Which processor this process runs on, in a line that costs next to nothing to get.

LLVM knows more, but its library takes longer to load than a small network to run.
"""

from __future__ import annotations

import functools
import os

from glow_nb.system.first_core import first_core
from glow_nb.system.sha256 import sha256
from glow_nb.system.tile_registers import tile_registers

_NAMES = ("vendor_id", "cpu family", "model", "stepping", "model name")


@functools.cache
def processor() -> str:
    """Return name and model of the first core, and a hash of what it can do.

    Machine code may be run where this line is the same. It is empty where the system does not tell.
    To run it may take the tile registers, which are asked for here.
    """
    found = first_core()
    if "flags" not in found:
        return ""
    flags = " ".join(sorted(found["flags"].split()))
    digest = sha256(flags.encode()).hexdigest()[:16]
    shown = ", ".join(f"{name} {found[name].strip()}" for name in _NAMES if name in found)
    refused = ", tiles refused" if tile_registers().are_refused else ""
    return f"{os.uname().machine}: {shown}, flags {digest}{refused}"
