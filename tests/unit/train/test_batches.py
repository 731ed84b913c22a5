"""Batches: what each epoch sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import FeedError, OptionError
from glow_nb.train.batches import Batches, as_batches

INPUTS, TARGETS = np.arange(20).reshape(10, 2), np.arange(10)


def targets_of(batches: Any, number: int = 0, begin: int = 0) -> list[list[int]]:
    """Return the targets of an epoch, batch by batch."""
    return [targets.tolist() for _, targets in batches.epoch(number, begin)]


def test_an_epoch_has_each_sample_once_and_its_own_order() -> None:
    batches = as_batches((INPUTS, TARGETS, 5))
    first, second = targets_of(batches, 0), targets_of(batches, 1)
    assert sorted(np.ravel(first)) == sorted(np.ravel(second)) == list(range(10))
    assert first != second
    assert targets_of(batches, 1) == second
    assert targets_of(as_batches((INPUTS, TARGETS, 5), seed=1)) != first


def test_inputs_follow_their_targets() -> None:
    for inputs, targets in as_batches(({"x": INPUTS}, TARGETS, 3)).epoch(0):
        assert isinstance(inputs, dict)
        assert (inputs["x"][:, 0] == 2 * targets).all()


def test_the_samples_that_are_left_are_dropped_or_kept() -> None:
    assert list(map(len, targets_of(as_batches((INPUTS, TARGETS, 4))))) == [4, 4]
    kept = as_batches((INPUTS, TARGETS, 4), keep_last=True)
    assert targets_of(kept) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(kept) == 3


def test_an_epoch_can_begin_in_its_middle() -> None:
    pairs = [(INPUTS[i : i + 2], TARGETS[i : i + 2]) for i in range(0, 10, 2)]
    for batches in (as_batches((INPUTS, TARGETS, 2)), as_batches(pairs)):
        assert targets_of(batches, 3, 2) == targets_of(batches, 3)[2:]


def test_lists_are_arrays() -> None:
    lists: Any = (INPUTS.tolist(), TARGETS.tolist())
    for inputs, targets in Batches({"x": lists[0]}, lists[1], 5).epoch(0):
        assert isinstance(inputs, dict)
        assert (inputs["x"][:, 0] == 2 * targets).all()


def test_a_seed_below_0_is_refused() -> None:
    with pytest.raises(OptionError, match="seed=-1"):
        Batches(INPUTS, TARGETS, 5, seed=-1)


def test_a_pair_of_batches_is_no_array_with_a_size() -> None:
    three = ((INPUTS, TARGETS), (INPUTS, TARGETS), (INPUTS, TARGETS))
    assert len(targets_of(as_batches(three))) == 3


def test_a_generator_serves_one_epoch() -> None:
    batches = as_batches(pair for pair in [(INPUTS, TARGETS)])
    assert len(targets_of(batches)) == 1
    with pytest.raises(FeedError, match="epoch 2: there are no batches"):
        targets_of(batches, 1)


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ((INPUTS[:9], TARGETS, 2), FeedError, "shape is .9, 2., but there are 10 targets"),
        ((INPUTS, TARGETS, 11), OptionError, "batch size 11: there are only 10 samples"),
        ((INPUTS, TARGETS, 0), OptionError, "batch size=0"),
        ((INPUTS, 3, 1), FeedError, "targets: .* is no batch"),
        (7, OptionError, "7 is no iterable"),
        ([INPUTS], FeedError, "batch 1: .* is not .inputs, targets."),
    ],
)
def test_data_that_is_none(data: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        list(as_batches(data).epoch(0))


def test_batches_of_a_user_stay_as_they_are() -> None:
    own = Batches(INPUTS, TARGETS, 4, shuffle=False)
    assert as_batches(own, seed=3) is own
    assert targets_of(own) == [[0, 1, 2, 3], [4, 5, 6, 7]]
