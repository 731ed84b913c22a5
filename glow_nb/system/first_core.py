"""What Linux tells of the first core of this machine, each line of it by its name."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_FIRST_BYTES = 8192
"""The first core is described in fewer; there may be hundreds of cores."""


@functools.cache
def first_core() -> Mapping[str, str]:
    """Return the lines about the first core, such as ``flags``; none where the system is silent."""
    try:
        with _CPUINFO.open("rb") as stream:
            text = stream.read(_FIRST_BYTES).decode("ascii", "replace").split("\n\n")[0]
    except OSError:
        return {}
    return dict(re.findall(r"^([^\t\n:]+)\t*: (.*)$", text, re.MULTILINE))
