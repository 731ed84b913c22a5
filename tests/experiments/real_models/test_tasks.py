"""Trained networks solve tasks whose answers are known, in three precisions (``make real``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from experiments.real_models.engines import (
    Recorder,
    opened_in_glow_nb,
    opened_in_integers,
    opened_in_onnxruntime,
)
from experiments.real_models.task import Answer
from experiments.real_models.tasks import TASKS
from glow_nb.base.distance import distance

pytestmark = [pytest.mark.real, pytest.mark.jit]

WRONG_WITH_FEWER_BITS: Mapping[tuple[str, str], int] = {}
"""Answers that are wrong at most, by task and precision; all others must be correct."""


@pytest.fixture(params=TASKS)
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of a task; skip it if a package of it is not installed."""
    name = str(request.param)
    missing = TASKS[name].missing_packages()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; make real installs them")
    return name


@cache
def solved(name: str) -> tuple[Answer, dict[str, Recorder]]:
    """Return the answer in float32, and what the networks were fed."""
    task = TASKS[name]()
    runs = {
        network: Recorder(opened_in_glow_nb(trained)) for network, trained in task.networks.items()
    }
    return task.solve(runs), runs


def check(name: str, precision: str, answer: Answer) -> None:
    allowed = WRONG_WITH_FEWER_BITS.get((name, precision), 0)
    assert answer.correct >= len(answer.truth) - allowed, str(answer)


def test_in_float32(name: str) -> None:
    answer, _ = solved(name)
    check(name, "float32", answer)


def test_in_bfloat16(name: str) -> None:
    task = TASKS[name]()
    runs = {n: opened_in_glow_nb(network, "bfloat16") for n, network in task.networks.items()}
    check(name, "bfloat16", task.solve(runs))


def test_in_integers(name: str) -> None:
    task = TASKS[name]()
    _, recorders = solved(name)
    runs = {
        n: opened_in_integers(network, recorders[n].feeds) for n, network in task.networks.items()
    }
    check(name, "int8", task.solve(runs))


def test_outputs_are_those_of_onnxruntime(name: str) -> None:
    """Every run of the task, within the rounding of float32."""
    _, recorders = solved(name)
    for network, trained in TASKS[name].networks.items():
        theirs = opened_in_onnxruntime(trained)
        for feeds in list(recorders[network].feeds):  # it records these runs, too
            expected = theirs(feeds)
            found = recorders[network](feeds)
            for output, array in expected.items():
                assert distance(array, found[output]) < 1e-3, (network, output)
