"""The releases of numba that the code generator works with.

It replaces passes of numba by its own and overrides methods that are not public in numba
(:mod:`glow_nb.codegen.compile`, and the modules that it imports). A later release may have changed
them: what came out then would be an error without a reason, or wrong code. So a release that was
not tested is refused, before it is imported.
"""

from __future__ import annotations

import re

from glow_nb.base.errors import CompileError
from glow_nb.system.installed import installed_versions

FIRST, LAST = (0, 62), (0, 68)
"""The earliest and the latest tested releases; ``setup.cfg`` allows all patches of them."""

TESTED = f"numba {FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}"


def require_tested_numba() -> None:
    """Raise CompileError if the numba that is installed is none of :data:`TESTED`.

    A numba of unknown version, such as one that is run from its source, is accepted.
    """
    version = installed_versions().get("numba", "")
    if not is_tested(version):
        raise CompileError(
            f"numba {version}: this glow_nb overrides passes of {TESTED}, and works with no other "
            f'release; pip install "{requirement()}", or install a glow_nb that was tested with it'
        )


def is_tested(version: str) -> bool:
    """Return whether *version* of numba is one of :data:`TESTED`, or no version at all."""
    release = re.match(r"(\d+)\.(\d+)", version)
    return not release or FIRST <= (int(release[1]), int(release[2])) <= LAST


def requirement() -> str:
    """Return what ``setup.cfg`` asks for: ``numba>=0.62,<0.69``."""
    return f"numba>={FIRST[0]}.{FIRST[1]},<{LAST[0]}.{LAST[1] + 1}"
