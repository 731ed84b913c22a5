"""What is told of packages that are not installed."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.base.extras import EXTRAS, needing

ROOT = Path(__file__).parents[3]


def test_extras_are_those_of_the_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for extra, packages in EXTRAS.items():
        lines = setup["options.extras_require"][extra].split("\n")
        assert packages == tuple(re.split("[>=<]", line)[0] for line in lines if line)


def test_package_that_is_missing_is_named_with_those_that_go_with_it() -> None:
    with pytest.raises(
        OptionError, match="^the map: no_such is not installed; pip install matplotlib pillow$"
    ):
        with needing("plot", "the map"):
            import no_such  # type: ignore[import-not-found]  # noqa: F401


def test_no_hint_installs_a_package_of_our_name() -> None:
    """The name is nobody's promise on an index: who installs by it may get something else."""
    pages = [path for path in ROOT.glob("docs/**/*") if path.suffix in (".md", ".ipynb")]
    for path in (*ROOT.glob("glow_nb/**/*.py"), *pages, ROOT / "README.md"):
        assert not re.search(r"install '?\"?glow[_-]nb", path.read_text("utf-8")), path
