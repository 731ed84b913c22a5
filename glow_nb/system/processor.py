"""Which processor this process runs on, in a line that costs next to nothing to get.

LLVM knows more, but its library takes longer to load than a small network to run.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from glow_nb.system.sha256 import sha256

_CPUINFO = Path("/proc/cpuinfo")
_FIRST_BYTES = 8192
"""The first core is described in fewer; there may be hundreds of cores."""

_NAMES = ("vendor_id", "cpu family", "model", "stepping", "model name")


@functools.cache
def processor() -> str:
    """Return name and model of the first core, and a hash of what it can do.

    Machine code may be run where this line is the same. It is empty where the system does not tell.
    """
    try:
        with _CPUINFO.open("rb") as stream:
            text = stream.read(_FIRST_BYTES).decode("ascii", "replace").split("\n\n")[0]
    except OSError:
        return ""
    found = dict(re.findall(r"^([^\t\n:]+)\t*: (.*)$", text, re.MULTILINE))
    if "flags" not in found:
        return ""
    flags = " ".join(sorted(found["flags"].split()))
    digest = sha256(flags.encode()).hexdigest()[:16]
    shown = ", ".join(f"{name} {found[name].strip()}" for name in _NAMES if name in found)
    return f"{os.uname().machine}: {shown}, flags {digest}"
