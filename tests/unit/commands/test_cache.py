"""``glow-nb cache``: what it lists, adds up, verifies and clears."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from glow_nb.cli import main
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.network.saved.files import CONSTANTS, MANIFEST, SUMS
from glow_nb.system.cache_folder import CACHE_VARIABLE
from glow_nb.system.file_digests import digest_of_file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NetworkCache:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    cache = NetworkCache()

    def write(folder: Path) -> None:
        (folder / CONSTANTS).write_bytes(bytes(1000))
        (folder / MANIFEST).write_text("{}")
        sums = (f"{digest_of_file(folder / name)}  {name}\n" for name in (CONSTANTS, MANIFEST))
        (folder / SUMS).write_text("".join(sums))

    for key in ("a" * 40, "b" * 40):
        cache.store(key, write)
    return cache


def output(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["cache", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_list_and_size(cache: NetworkCache) -> None:
    rows = json.loads(output("list", "--json"))["networks"]
    assert {row["key"] for row in rows} == {"a" * 40, "b" * 40}
    assert "aaaaaaaaaaaa" in output("list")
    found = json.loads(output("size", "--json"))
    assert found["networks"] == 2 and 2000 < found["bytes"] < 3000
    assert "networks 2, " in output("size")


def test_verify_removes_what_is_damaged(cache: NetworkCache) -> None:
    assert output("verify") == "networks 2, damaged 0\n"
    (cache.kept()[0].path / CONSTANTS).write_bytes(b"half")
    assert "constants.bin differ from their sums" in output("verify")
    assert json.loads(output("verify", "--json")) == {"networks": 1, "damaged": []}


def test_clear_removes_all(cache: NetworkCache) -> None:
    assert output("clear").startswith("removed 2 networks, ")
    assert "no networks in" in output("list")


def test_another_action_is_refused() -> None:
    result = CliRunner().invoke(main, ["cache", "burn"])
    assert result.exit_code == 2
    assert "'list', 'size', 'verify', 'clear'" in result.output
