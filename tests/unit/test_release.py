"""What a release says of itself in several places is the same in all of them."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import yaml

from glow_nb.base.version import __version__
from tests.distribution import FILES, FOLDERS, quick_start, supported_pythons
from tests.oldest_packages import LEFT_OUT, constraints

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_version_and_date_agree(settings: configparser.ConfigParser) -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert settings["metadata"]["version"] == cited["version"] == __version__
    headings = re.findall(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert (__version__, str(cited["date-released"])) in headings


def test_pythons_are_those_that_may_be_installed_on(settings: configparser.ConfigParser) -> None:
    first, last = re.findall(r"3\.(\d+)", settings["options"]["python_requires"])
    assert supported_pythons(ROOT) == [f"3.{minor}" for minor in range(int(first), int(last))]


def test_each_package_has_a_lower_bound() -> None:
    pinned = dict(line.split("==") for line in constraints(ROOT / "setup.cfg"))
    assert {"numba", "numpy", "onnx", "matplotlib", "starlette"} <= pinned.keys()


def test_what_the_oldest_packages_cannot_test_exists() -> None:
    for name in LEFT_OUT:
        path, _, test = name.partition("::")
        text = (ROOT / "tests" / "unit" / path).read_text(encoding="utf-8")
        assert f"def {test}(" in text or not test


def test_files_of_the_source_distribution_are_there() -> None:
    assert [name for name in (*FILES, *FOLDERS) if not (ROOT / name).exists()] == []
    taken = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    by_itself = {"LICENSE", "README.md", "pyproject.toml", "setup.cfg", "glow_nb"}
    assert [name for name in (*FILES, *FOLDERS) if name not in taken] == [
        name for name in (*FILES, *FOLDERS) if name in by_itself
    ]


def test_quick_start_is_found_in_the_readme() -> None:
    script, commands = quick_start(ROOT)
    assert "glow_nb.compile(" in script
    assert commands and all(command.startswith("glow-nb ") for command in commands)


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.md")), ids=lambda p: p.stem)
def test_templates_of_issues_have_a_name_and_a_purpose(path: Path) -> None:
    _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    assert {"name", "about"} <= yaml.safe_load(head).keys() and body.strip()


def test_hooks_of_pre_commit_need_no_address() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repository["repo"] for repository in hooks["repos"]} == {"local"}
