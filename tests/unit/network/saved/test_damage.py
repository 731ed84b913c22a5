"""Damaged networks on the disk are refused or made again: never wrong numbers, never a crash."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import glow_nb
from glow_nb.base.errors import GlowError, ModelError
from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import (
    close,
    dense_model,
    found,
    needs_loader,
    saved_model,
    wait_for_writers,
)

pytestmark = needs_loader


def flipped(path: Path, other: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def cut(path: Path, other: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def longer(path: Path, other: Path, rng: random.Random) -> None:
    with path.open("ab") as stream:
        stream.write(rng.randbytes(rng.randrange(1, 5000)))


def zeroed(path: Path, other: Path, rng: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def swapped(path: Path, other: Path, rng: random.Random) -> None:
    contents = path.read_bytes(), other.read_bytes()
    path.write_bytes(contents[1])
    other.write_bytes(contents[0])


def removed(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()


def a_folder(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link_to_itself(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(path)


Damage = Callable[[Path, Path, random.Random], None]

DAMAGES: list[Damage] = [
    *(flipped, cut, longer, zeroed, swapped, removed, a_folder, a_pipe, a_link_to_itself)
]
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 28))]
"""What rounds draw by; one runs always, 500 damages in the slow run."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "net"
    glow_nb.compile(dense_model(), threads=2).save(folder)
    return folder


@pytest.mark.parametrize("number", ROUNDS)
def test_a_damaged_folder_is_refused(saved: Path, tmp_path: Path, number: int) -> None:
    for damage in DAMAGES:
        copy = tmp_path / damage.__name__
        shutil.copytree(saved, copy)
        rng = random.Random(f"{damage.__name__} {number}")
        path, other = rng.sample(sorted(copy.iterdir()), 2)
        damage(path, other, rng)
        with pytest.raises(ModelError, match="save the network again|that net.save wrote"):
            glow_nb.load_compiled(copy)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_damaged_cache_is_made_again(cache: NetworkCache, tmp_path: Path, number: int) -> None:
    path = saved_model(tmp_path / "a", 1)
    found(glow_nb.compile(path, threads=1))
    for damage in DAMAGES:
        (network,) = cache.kept()
        rng = random.Random(f"{damage.__name__} {number}")
        damaged, other = rng.sample(sorted(network.path.iterdir()), 2)
        damage(damaged, other, rng)
        assert close(glow_nb.compile(path, threads=1), 1)
        wait_for_writers()
        again = glow_nb.compile(path, threads=1)
        assert found(again) and close(again, 1)


def test_code_that_was_cut_off_while_it_was_mapped_is_loaded_from_its_new_file(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a", 1)
    found(glow_nb.compile(path, threads=1))
    for _ in range(2):
        assert found(glow_nb.compile(path, threads=1))
        (network,) = cache.kept()
        (code,) = network.path.glob("code-*.so")
        code.write_bytes(b"")
        assert not found(glow_nb.compile(path, threads=1))
        assert close(glow_nb.compile(path, threads=1), 1)


def test_damaged_notes_are_of_no_importance(cache: NetworkCache, tmp_path: Path) -> None:
    paths = [saved_model(tmp_path / name, number) for number, name in enumerate("ab")]
    for path in paths:
        os.utime(path, (1, 1))
        found(glow_nb.compile(path, threads=1))
    assert cache.digests.folder is not None
    for damage in (flipped, cut, longer, zeroed, swapped, removed):
        rng = random.Random(damage.__name__)
        for note in sorted(cache.digests.folder.glob("*.digests")):
            damage(note, rng.choice(sorted(cache.digests.folder.glob("*.digests"))), rng)
        for number, path in enumerate(paths):
            assert close(glow_nb.compile(path, threads=1), number)
            wait_for_writers()


SAVES = """
import sys, numpy as np, glow_nb
nets = [glow_nb.compile(path, threads=1, cache=False) for path in sys.argv[2:]]
print("ready", flush=True)
while True:
    for net in nets:
        net.save(sys.argv[1])
"""


def killed(script: str, *arguments: Path, seconds: float) -> None:
    """Run *script* on *arguments* until some time after it is ready."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdout=-1, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_who_is_killed_while_it_saves_leaves_a_whole_network(tmp_path: Path) -> None:
    paths, rng = [saved_model(tmp_path / name, n) for n, name in enumerate("ab")], random.Random(0)
    glow_nb.compile(paths[0], threads=1).save(tmp_path / "net")
    for _ in range(12):
        killed(SAVES, tmp_path / "net", *paths, seconds=rng.uniform(0, 0.2))
        net = glow_nb.load_compiled(tmp_path / "net")
        assert close(net, 0) or close(net, 1)
    glow_nb.compile(paths[1], threads=1).save(tmp_path / "net")
    assert close(glow_nb.load_compiled(tmp_path / "net"), 1)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system take no longer files from this process, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [0, 100, 4096, 6000])
def test_a_disk_that_takes_no_more_leaves_the_old_network(tmp_path: Path, size: int) -> None:
    nets = [glow_nb.compile(dense_model(seed), threads=1) for seed in range(2)]
    nets[0].save(tmp_path / "net")
    with (
        files_of_at_most(size),
        pytest.raises(GlowError, match="net: cannot be written: File too large"),
    ):
        nets[1].save(tmp_path / "net")
    assert close(glow_nb.load_compiled(tmp_path / "net"), 0)
    assert [path.name for path in tmp_path.iterdir()] == ["net"]
    nets[1].save(tmp_path / "net")
    assert close(glow_nb.load_compiled(tmp_path / "net"), 1)
