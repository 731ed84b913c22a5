"""A training step as a network: it is built for C, and steps there are those of the trainer."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer
from tests.unit.bundle.bundles import LoadedBundle, bundle_of, needs_elf
from tests.unit.train.networks import perceptron
from tests.unit.train.trainers import POINTS, REGIONS

pytestmark = [needs_elf, pytest.mark.jit]


def test_steps_that_were_built_are_those_of_the_trainer_bit_by_bit() -> None:
    loss, rate = SoftmaxCrossEntropy(), 0.1
    trainer = Trainer(perceptron, loss=loss, optimizer=SGD(rate, momentum=0.9), threads=1)
    batches = [(POINTS[i : i + 20], REGIONS[i : i + 20]) for i in (0, 20, 40, 60)]
    trainer.step(*batches[0])
    net = trainer.network(*batches[0])
    assert list(net) == ["train", "infer"]
    bundle = bundle_of(net)
    loaded = LoadedBundle(bundle)
    assert loaded.initialize() == 0
    places = {tensor.name: loaded.place(tensor) for tensor in bundle.states}
    for points, regions in batches[1:]:
        fed = (points, regions, np.float32(rate))
        names = [tensor.name for tensor in bundle.functions[0].inputs]
        feeds = {n: np.asarray(array) for n, array in zip(names, fed, strict=True)}
        found, *_ = loaded.run(feeds).values()
        assert float(found.item()) == trainer.step(points, regions)
    for name, weight in trainer.weights.items():
        assert places[name].tobytes() == weight.tobytes(), name
    predicted = loaded.run({"x": POINTS[:20]}, number=1)
    assert predicted["y"].tobytes() == trainer.predict(POINTS[:20])["y"].tobytes()
