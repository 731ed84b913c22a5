"""The oldest packages that ``setup.cfg`` allows, as constraints for pip: ``numba==0.62``.

``make oldest`` installs them into an environment of its own and runs the unit and golden tests
there, so that each lower bound is one that was tried::

    python tests/oldest_packages.py > constraints.txt
"""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SETTINGS = Path(__file__).parents[1] / "setup.cfg"
EXTRAS = ("plot", "serve")
"""Extras with parts of the package; the others have tools for those who work on it."""


def constraints(settings: Path) -> Iterator[str]:
    """Yield a line for each package that the file *settings* gives a lower bound."""
    parser = configparser.ConfigParser()
    parser.read(settings)
    wanted = parser["options"]["install_requires"]
    wanted += "".join(parser["options.extras_require"][extra] for extra in EXTRAS)
    for line in wanted.split():
        found = re.fullmatch(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?", line)
        if not found:
            raise SystemExit(f"{settings}: {line!r} has no lower bound, name>=version")
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in constraints(SETTINGS))
