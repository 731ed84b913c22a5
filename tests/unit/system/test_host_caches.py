"""What the system tells about caches, read from folders made like those of Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from glow_nb.codegen import measure_limits
from glow_nb.kernels import target
from glow_nb.kernels.target import Target
from glow_nb.system import host_caches
from glow_nb.system.host_caches import (
    Cache,
    available_processors,
    caches_of,
    caches_of_all,
    cores_of,
)

KIB = 1024
LEVELS = {"index0": (1, "Data"), "index1": (1, "Instruction"), "index2": (2, "Unified")}


def describe(folder: Path, processor: int, core: str, sizes: dict[str, tuple[str, str]]) -> None:
    """Write what Linux tells about *processor*: sizes and sharers of its caches by their index."""
    topology = folder / f"cpu{processor}" / "topology"
    topology.mkdir(parents=True)
    (topology / "core_cpus_list").write_text(f"{core}\n")
    for index, (size, shared) in sizes.items():
        level, kind = LEVELS.get(index, (3, "Unified"))
        place = folder / f"cpu{processor}" / "cache" / index
        place.mkdir(parents=True)
        files = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
        for name, content in files.items():
            (place / name).write_text(f"{content}\n")


@pytest.fixture
def four_cores(tmp_path: Path) -> Path:
    """Four cores of two hardware threads each; two cores share a last-level cache."""
    for processor in range(8):
        core = f"{processor % 4},{processor % 4 + 4}"
        last = "0-1,4-5" if processor % 4 < 2 else "2-3,6-7"
        own = {"index0": ("32K", core), "index1": ("64K", core), "index2": ("512K", core)}
        describe(tmp_path, processor, core, own | {"index3": ("16384K", last)})
    return tmp_path


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let a test describe another machine, which is forgotten after it."""
    monkeypatch.delenv(target.CACHES_VARIABLE)
    target._host_caches.cache_clear()
    yield monkeypatch
    target._host_caches.cache_clear()


def run_on(host: pytest.MonkeyPatch, folder: Path, processors: tuple[int, ...]) -> None:
    host.setattr(host_caches, "PROCESSORS", folder)
    for module in (target, measure_limits):
        host.setattr(module, "available_processors", lambda: processors)


def test_caches_of_data_are_found(four_cores: Path) -> None:
    assert caches_of(6, four_cores) == (
        Cache(1, 32 * KIB, frozenset({2, 6})),
        Cache(2, 512 * KIB, frozenset({2, 6})),
        Cache(3, 16384 * KIB, frozenset({2, 3, 6, 7})),
    )


def test_a_shared_cache_is_one(four_cores: Path) -> None:
    levels = [cache.level for cache in caches_of_all(range(8), four_cores)]
    assert [levels.count(level) for level in (1, 2, 3)] == [4, 4, 2]


def test_hardware_threads_of_a_core_count_once(four_cores: Path) -> None:
    assert cores_of({0, 1, 4}, four_cores) == {frozenset({0, 4}), frozenset({1, 5})}
    assert cores_of({0, 1}, four_cores / "nowhere") == {frozenset({0}), frozenset({1})}


def test_older_systems_name_the_list_differently(four_cores: Path) -> None:
    for topology in four_cores.glob("*/topology"):
        (topology / "core_cpus_list").rename(topology / "thread_siblings_list")
    assert cores_of({0, 1, 4}, four_cores) == {frozenset({0, 4}), frozenset({1, 5})}


@pytest.mark.parametrize(
    ("name", "text"),
    [("size", "large"), ("size", "xK"), ("level", ""), ("shared_cpu_list", "0-x"), ("type", None)],
)
def test_what_makes_no_sense_is_left_out(four_cores: Path, name: str, text: str | None) -> None:
    file = four_cores / "cpu0" / "cache" / "index2" / name
    file.write_text(text) if text is not None else file.unlink()
    assert [cache.level for cache in caches_of(0, four_cores)] == [1, 3]


def test_the_target_has_the_sizes_of_one_core(host: pytest.MonkeyPatch, four_cores: Path) -> None:
    run_on(host, four_cores, (3, 7))
    found = Target.host()
    assert (found.l1_bytes, found.l2_bytes, found.l3_bytes) == (32 * KIB, 512 * KIB, 16384 * KIB)


def test_the_second_level_may_be_the_last(host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    describe(tmp_path, 0, "0", {"index0": ("64K", "0"), "index2": ("2048K", "0-1")})
    describe(tmp_path, 1, "1", {"index0": ("64K", "1"), "index2": ("2048K", "0-1")})
    run_on(host, tmp_path, (0, 1))
    assert Target.host().l3_bytes == Target.host().l2_bytes == 2048 * KIB
    levels = measure_limits._levels(2, Target.host())
    assert [(level.name, level.cores, level.caches) for level in levels] == [
        ("L1", 1, 2),
        ("L2", 2, 1),
        ("DRAM", 0, 1),
    ]


def test_usual_sizes_are_assumed_where_the_system_is_silent(
    host: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_on(host, tmp_path, (0, 1))
    row = Target.host().chosen_row.machine
    assert Target.host().machine == row
    levels = measure_limits._levels(4, Target.host())
    assert [(level.name, level.cores, level.caches) for level in levels] == [
        ("L1", 0, 2),
        ("L2", 0, 2),
        ("L3", 0, 1),
        ("DRAM", 0, 1),
    ]


@pytest.mark.parametrize(("threads", "own", "last"), [(1, 1, 1), (2, 2, 2), (8, 4, 2), (16, 4, 2)])
def test_threads_work_in_no_more_caches_than_there_are(
    host: pytest.MonkeyPatch, four_cores: Path, threads: int, own: int, last: int
) -> None:
    run_on(host, four_cores, tuple(range(8)))
    levels = measure_limits._levels(threads, Target.host())
    assert [level.caches for level in levels] == [own, own, last, 1]
    assert [level.cores for level in levels] == [1, 1, 2, 0]
    assert [level.all_bytes // KIB for level in levels] == [32 * own, 512 * own, 16384 * last, 0]


def test_only_the_processors_of_the_process_count(
    host: pytest.MonkeyPatch, four_cores: Path
) -> None:
    run_on(host, four_cores, (1, 5))
    assert [level.caches for level in measure_limits._levels(8, Target.host())] == [1, 1, 1, 1]


def test_where_cores_differ_the_smallest_cache_is_shown(
    host: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    describe(tmp_path, 0, "0", {"index0": ("48K", "0"), "index2": ("2048K", "0")})
    describe(tmp_path, 1, "1", {"index0": ("32K", "1"), "index2": ("1024K", "1")})
    run_on(host, tmp_path, (0, 1))
    levels = measure_limits._levels(2, Target.host())
    assert [level.all_bytes // KIB for level in levels] == [64, 2048, 0]


def test_systems_without_affinity_offer_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert available_processors() == (0, 1, 2)
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert available_processors() == (0,)
