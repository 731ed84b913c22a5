"""Are the wheel and the source distribution whole, and does the wheel run in a new environment?

``make dist`` builds both and calls this. It compares the source distribution with the checkout,
checks the metadata, and installs the wheel into an environment of its own for each version of
Python that the metadata names. There it runs the quick start of the README, its Python and its
commands, in a folder that holds nothing but ``experiments/digits.onnx``::

    python -m tests.distribution dist
    python -m tests.distribution dist --pythons 3.12

A version of Python is looked for as ``python3.12`` on the path, in pyenv's folder, and by
``uv python find``. One that is not found is named at the end, and is no failure.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", ".github", "docs", "experiments", "glow_nb", "tests", "website")
"""Folders of which the source distribution holds every file."""
FILES = (
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
    *("SECURITY.md", "mkdocs.yml", "pyproject.toml", "ruff.toml", "setup.cfg"),
    ".pre-commit-config.yaml",
)
QUICK_START = "digit: 3"
"""What the quick start prints first, wherever it runs."""


class DistributionError(Exception):
    """Something is missing or does not run: what, and where."""


def checked_in(root: Path) -> set[str]:
    """Return the files that the source distribution of the checkout at *root* must hold."""
    found = {path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()}
    names = {path.relative_to(root).as_posix() for path in found if path.suffix != ".pyc"}
    return names | set(FILES)


def check_sources(archive: Path, root: Path) -> None:
    """Raise DistributionError if the source distribution lacks a file of the checkout."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    absent = sorted(checked_in(root) - names)
    if absent:
        raise DistributionError(f"{archive.name} lacks {len(absent)} files: {absent[:5]}")


def check_wheel(wheel: Path, root: Path) -> Metadata:
    """Return the metadata of *wheel*.

    Raises:
        DistributionError: It lacks a file of the package, holds anything else, or its metadata are
            not valid, or its version has no section with a date in the changelog.
    """
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if not name.endswith("/")}
        (place,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(opened.read(place), validate=True)
    others = {name for name in names if not name.startswith(("glow_nb/", place.split("/")[0]))}
    absent = {name for name in checked_in(root) if name.startswith("glow_nb/")} - names
    if others or absent:
        raise DistributionError(
            f"{wheel.name} lacks {sorted(absent)[:5]} and should not hold {sorted(others)[:5]}"
        )
    heading = rf"^## {re.escape(str(metadata.version))} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M):
        raise DistributionError(f"CHANGELOG.md has no section with a date for {metadata.version}")
    return metadata


def supported_pythons(root: Path) -> list[str]:
    """Return the versions of Python that ``setup.cfg`` names."""
    settings = configparser.ConfigParser()
    settings.read(root / "setup.cfg")
    named = settings["metadata"]["classifiers"].splitlines()
    return [line.rpartition(" ")[2] for line in named if re.search(r":: 3\.\d+$", line)]


def find_python(version: str) -> Path | None:
    """Return an interpreter of *version*, such as 3.12; None if there is none to be found."""
    for candidate in _candidates(version):
        asked = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            told = subprocess.run(asked, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if told.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    """Yield files that may be an interpreter of *version*; a shim of pyenv may turn out as none."""
    if sys.version.startswith(f"{version}."):
        yield Path(sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder) / f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    if shutil.which("uv"):
        asked = ["uv", "python", "find", version]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode == 0:
            yield Path(told.stdout.strip())


def quick_start(root: Path) -> tuple[str, list[str]]:
    """Return the Python and the commands of the quick start in the README."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Quick start")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    script = "".join(content for language, content in blocks if language == "python")
    commands = [
        line.partition("  #")[0].strip()
        for language, content in blocks
        if language == "sh"
        for line in content.splitlines()
        if line.startswith("glow-nb ")
    ]
    return script, commands


def try_wheel(wheel: Path, python: Path, root: Path) -> None:
    """Install *wheel* into a new environment of *python*, and run the quick start there."""
    script, commands = quick_start(root)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment, place = folder / "environment", folder / "place"
        programs = environment / "bin"
        (place / "experiments").mkdir(parents=True)
        shutil.copy(root / "experiments" / "digits.onnx", place / "experiments")
        _must_run([python, "-m", "venv", environment], folder)
        pip: list[str | Path] = [
            programs / "python",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
        ]
        _must_run([*pip, "install", wheel.resolve()], folder)
        _must_run([*pip, "check"], folder)
        printed = _must_run([programs / "python", "-c", script], place)
        if printed.partition("\n")[0] != QUICK_START:
            raise DistributionError(f"the quick start printed {printed!r}")
        for command in commands:
            _must_run([programs / "glow-nb", *command.split()[1:]], place)


def _must_run(command: Sequence[str | Path], folder: Path) -> str:
    """Run *command* in *folder*, with a cache of its own and no path to the checkout."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command,
        cwd=folder,
        env=kept | {"GLOW_NB_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        told = (result.stdout + result.stderr)[-2000:]
        raise DistributionError(f"{' '.join(map(str, command))[:200]}\n{told}")
    return result.stdout


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Check what ``python -m build`` has written to a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with one wheel and one .tar.gz")
    parser.add_argument("--pythons", nargs="+", default=supported_pythons(ROOT), metavar="3.x")
    given = parser.parse_args()
    found = [*given.folder.glob("*.whl"), *given.folder.glob("*.tar.gz")]
    if [path.suffix for path in found] != [".whl", ".gz"]:
        parser.error(f"{given.folder}: there must be one wheel and one .tar.gz; run make dist")
    wheel, sources = found
    check_sources(sources, ROOT)
    metadata = check_wheel(wheel, ROOT)
    _say(f"{sources.name} and {wheel.name} are whole; {metadata.name} {metadata.version}")
    absent = []
    for version in given.pythons:
        python = find_python(version)
        if python is None:
            absent.append(version)
            continue
        began = time.perf_counter()
        try_wheel(wheel, python, ROOT)
        seconds = time.perf_counter() - began
        _say(f"Python {version} ({python}): the quick start runs, {seconds:.0f} s")
    for version in absent:
        _say(f"Python {version}: NOT TRIED, there is none on the path, in pyenv's folder or by uv")
    if len(absent) == len(given.pythons):
        raise SystemExit("no Python was found to try the wheel with")


if __name__ == "__main__":
    main()
