"""gdb and a network: the session of docs/howto/debugging.md, repeated."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.network.saved.models import needs_loader

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "debugging.md"
PROMPT = "(gdb) "

pytestmark = [
    pytest.mark.jit,
    needs_loader,
    pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed"),
]


def shown_session() -> list[str]:
    """Return the lines of the session on the page, from the first command on."""
    text = PAGE.read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- session begins -->\n```text\n")
    return rest.partition("```\n")[0].splitlines()[1:]


def session(folder: Path, commands: list[str]) -> list[str]:
    """Return the lines of a session with the script of the page, as the page shows them."""
    script = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert script is not None
    names: dict[str, Any] = {}
    exec(script[1], names)  # here, as a process more would only take longer
    (folder / "small.py").write_text(script[1], encoding="utf-8")
    before = (
        *("set pagination off", "set width 0", "set debuginfod enabled off"),
        f"source {names['net'].debug_folder}/gdb_commands.py",
        *("set args small.py > printed.txt", "set trace-commands on"),
    )
    (folder / "session.gdb").write_text("\n".join([*before, *commands]) + "\n", encoding="utf-8")
    done = subprocess.run(
        ["gdb", "-nx", "-batch", "-x", "session.gdb", sys.executable],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=True,
    )
    lines = done.stdout.splitlines()
    begin = lines.index(f"+{commands[0]}")
    return [
        PROMPT + line.removeprefix("+") if line.removeprefix("+") in commands else line
        for line in lines[begin:]
        if line and not line.startswith(("[", "Using host libthread_db"))
    ]


def comparable(line: str) -> str:
    """Return *line* without what differs from processor to processor, and from run to run."""
    line = re.sub(r'^Thread \d+ "\w+" hit ', "", line)
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    line = re.sub(r"_([0-9a-f]{20}|[0-9a-f]{8})\b", "_HASH", line)
    line = re.sub(r"scratch=ADDRESS, ", "", line)  # which not each kernel has
    line = re.sub(r"\.py(:|, line )\d+", r".py\1N", line)
    line = re.sub(r"^\d+\t(?!.*@out).*", "a line of the kernel", line)
    line = re.sub(r"(?<=@in none) \{.*", " and how", line)
    return re.sub(r"(rhs = %\w+ : float32)<.*?>", r"\1", line)  # in panels of some width


def test_the_session_of_the_page_repeats(tmp_path: Path) -> None:
    shown = shown_session()
    commands = [line.removeprefix(PROMPT) for line in shown if line.startswith(PROMPT)]
    found = session(tmp_path, commands)
    what_the_page_should_show = "\n".join(found)
    same = [comparable(line) for line in found] == [comparable(line) for line in shown]
    assert same, what_the_page_should_show
    assert (tmp_path / "printed.txt").read_text().endswith("[11.  0.  0.  0.]\n")
