"""Networks that keep their caches: runs, what is in the caches, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import (
    FeedError,
    MemoryLimitError,
    OptionError,
    StateError,
    UnsupportedError,
)
from tests.caches import ALL, SIZES, STEPS, check_steps, plain_step

OPTIONS: dict[str, Any] = {"backend": "interpreter", "threads": 1}


def network(past: int = 40) -> glow_nb.GrowingNetwork:
    sizes = {**SIZES, "past": (0, past)}
    net = glow_nb.compile(plain_step().model, sizes=sizes, caches={"past": "present"}, **OPTIONS)
    assert isinstance(net, glow_nb.GrowingNetwork)
    return net


def rows(count: int, batch: int = 1, start: int = 0) -> np.ndarray:
    places = np.arange(start, start + count, dtype=np.float32)[None, :, None]
    return np.broadcast_to(places, (batch, count, 4)).copy()


def test_each_run_finds_the_rows_of_those_before() -> None:
    net = network()
    assert list(net.inputs) == ["new"]
    assert list(net.outputs) == ["sum"]
    assert (net.length, net.caches) == (0, {})
    assert net.run(new=rows(3))["sum"][0, 0] == 3
    assert net.run(new=rows(1, start=3))["sum"][0, 0] == 6
    np.testing.assert_array_equal(net.caches["past"], rows(4))
    assert net.length == 4


@pytest.mark.jit
def test_machine_code_writes_into_the_cache() -> None:
    step = STEPS["attention"]()
    check_steps(step, *step.compiled(threads=1, specialize_after=None), [3, 1, 1, 8, 1])


def test_caches_are_emptied_and_cut() -> None:
    net = network()
    net.run(new=rows(5))
    net.truncate(2)
    assert net.run(new=rows(1, start=10))["sum"][0, 0] == 11
    net.reset()
    assert net.run(new=rows(2, batch=2))["sum"].shape == (2, 4)  # memory for another batch
    with pytest.raises(OptionError, match="length=3: give a whole number from 0 to 2"):
        net.truncate(3)


def test_a_fork_goes_its_own_way() -> None:
    net = network()
    net.run(new=rows(3))
    other = net.fork()
    other.run(new=rows(1, start=100))
    assert net.run(new=rows(1, start=3))["sum"][0, 0] == 6
    assert other.caches["past"][0, :, 0].tolist() == [0, 1, 2, 100]
    assert other.variants == net.variants


def test_caches_are_filled_from_arrays_of_any_batch() -> None:
    net = network()
    net.fill({"past": rows(3)})
    beams = {name: array[[0, 0]] for name, array in net.caches.items()}
    beams["past"][1] += 1
    net.fill(beams)
    assert net.run(new=rows(1, batch=2))["sum"][:, 0].tolist() == [3, 6]
    net.fill({name: array[[1, 0]] for name, array in net.caches.items()})
    assert net.caches["past"][:, 1, 0].tolist() == [2, 1]


def test_writing_to_a_cache_changes_it() -> None:
    net = network()
    net.run(new=rows(3))
    net.caches["past"][:, 1] = 50
    assert net.run(new=rows(1))["sum"][0, 0] == 52


def test_a_full_cache_is_an_error_before_anything_is_written() -> None:
    net = network(past=4)
    net.run(new=rows(5))
    before = net.caches["past"].copy()
    with pytest.raises(FeedError, match="5 rows in them, and a run may find 4 at most") as caught:
        net.run(new=rows(1))
    assert "net.truncate(4)" in str(caught.value)
    assert net.length == 5
    np.testing.assert_array_equal(net.caches["past"], before)


def test_other_feeds_than_before_are_refused() -> None:
    net = network()
    net.run(new=rows(2))
    with pytest.raises(FeedError, match=r"with its room it is \[1, 48, 4\].*\[2, 48, 4\]"):
        net.run(new=rows(1, batch=2))
    with pytest.raises(FeedError, match="unknown input 'past'"):
        net.run({"new": rows(1), "past": rows(1)})
    with pytest.raises(FeedError, match="9, which is outside its range 1..8"):
        net.run(new=rows(9))
    with pytest.raises(FeedError, match="float64"):
        net.run(new=rows(1).astype(np.float64))
    assert net.length == 2


def test_a_mask_of_another_length_than_the_caches_is_refused() -> None:
    step = STEPS["attention with a mask"]()
    _, net = step.compiled(**OPTIONS)
    rng = np.random.default_rng(0)
    sizes = {"batch": 1, "length": 2}
    net.run(step.feeds(rng, {**sizes, ALL: 2}))
    with pytest.raises(FeedError, match="'mask'.* shape is \\[2, 2\\].* is \\[2, 4\\]"):
        net.run(step.feeds(rng, {**sizes, ALL: 2}))
    assert net.length == 2
    assert net.run(step.feeds(rng, {**sizes, ALL: 4}))["y"].shape == (1, 2, 2, 4)


def test_what_is_filled_in_must_fit() -> None:
    net = network()
    with pytest.raises(FeedError, match="'past'"):
        net.fill({})
    with pytest.raises(FeedError, match="41, which is outside its range 0..40"):
        net.fill({"past": rows(41)})
    with pytest.raises(FeedError, match="float32"):
        net.fill({"past": rows(2).astype(np.int32)})
    assert net.length == 0


@pytest.mark.parametrize("given", [5, "text", np.ones((2, 4), np.float32)])
def test_what_is_filled_in_and_has_other_dimensions_is_said_to(given: Any) -> None:
    with pytest.raises(FeedError, match="input 'past': (shape|dtype|it is text)"):
        network().fill(given)


def test_a_fill_without_memory_leaves_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    net.run(new=rows(3))

    def no_memory(_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("glow_nb.network.cache_memory._zeros", no_memory)
        with pytest.raises(MemoryLimitError, match="caches: the system gave no more memory"):
            net.fill({"past": rows(2, batch=2)})
    assert net.run(new=rows(1, start=3))["sum"][0, 0] == 6


def test_a_cache_whose_range_begins_later_is_filled_first() -> None:
    sizes = {**SIZES, "past": (2, 40)}
    net = glow_nb.compile(plain_step().model, sizes=sizes, caches={"past": "present"}, **OPTIONS)
    assert isinstance(net, glow_nb.GrowingNetwork)
    with pytest.raises(FeedError, match="0 rows in them, and a run must find 2 at least"):
        net.run(new=rows(1))
    net.fill({"past": rows(2)})
    assert net.run(new=rows(1))["sum"][0, 0] == 1


def test_runs_choose_outputs_write_into_arrays_and_show_values() -> None:
    net, place = network(), np.empty((1, 4), np.float32)
    found = net.run({"new": rows(2)}, into={"sum": place}, watch=["sum"])
    assert found["sum"] is place
    assert net.run({"new": rows(1)}, outputs=["sum"])["sum"][0, 0] == 1
    with pytest.raises(OptionError, match="past"):
        net.run({"new": rows(1)}, outputs=["past"])
    assert net.length == 3
    for name in ("past", "present"):  # the program has the cache as an output
        with pytest.raises(OptionError, match=rf"no output '{name}'.*the outputs are \['sum'\]"):
            net.run({"new": rows(2)}, into={name: place})
    with pytest.raises(OptionError, match=r"into=\[\]: give a dict"):
        net.run({"new": rows(2)}, into=[])  # type: ignore[arg-type]


def test_runs_in_the_background_come_one_after_the_other() -> None:
    net = network()

    async def all_runs() -> list[float]:
        runs = [net.run_async(new=rows(1, start=n)) for n in range(6)]
        return [float((await run)["sum"][0, 0]) for run in runs]

    assert asyncio.run(all_runs()) == [0, 1, 3, 6, 10, 15]


def test_two_runs_at_once_are_refused() -> None:
    net = network()
    with net._memory.in_use(), pytest.raises(StateError, match="one run at a time"):
        net.run(new=rows(1))


def test_caches_are_watched_by_their_names_in_the_model() -> None:
    net = network()
    net.run(new=rows(2))
    found = net.run(new=rows(1, start=2), watch=["present", "sum", "past"])
    assert list(found) == ["sum", "present", "past"]
    np.testing.assert_array_equal(found["present"], rows(3))
    np.testing.assert_array_equal(found["past"], rows(2))
    everything = net.run(new=rows(1, start=3), watch=net.value_names, outputs=["sum"])
    np.testing.assert_array_equal(everything["present"], rows(4))
    assert everything["sum"][0, 0] == 6
    everything["present"][:] = 0  # a copy
    np.testing.assert_array_equal(net.caches["past"], rows(4))


def test_what_there_is_not_is_refused(tmp_path: Path) -> None:
    net = network()
    with pytest.raises(UnsupportedError, match="bind"):
        net.bind({"new": rows(1)})
    with pytest.raises(UnsupportedError, match="hints="):
        net.prepare({"batch": 1})
    with pytest.raises(UnsupportedError, match="no machine code"):
        net.save(tmp_path / "net")
    with pytest.raises(UnsupportedError, match="without caches="):
        net.build(tmp_path / "net")
    with pytest.raises(UnsupportedError, match="without caches="):
        glow_nb.build(
            *(plain_step().model, tmp_path / "net"),
            name="net",
            sizes=SIZES,
            caches={"past": "present"},
            backend="interpreter",
        )


def test_a_model_of_fixed_sizes_has_no_caches() -> None:
    model = plain_step().model
    shapes = {"batch": 1, "length": 1, "past": 3}
    with pytest.raises(OptionError, match="all sizes of the model are fixed"):
        glow_nb.compile(model, shapes=shapes, caches={"past": "present"}, **OPTIONS)
