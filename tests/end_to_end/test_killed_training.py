"""A process that is killed while it trains leaves a checkpoint that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from glow_nb.train import Adam, SoftmaxCrossEntropy, Trainer
from tests.unit.train.networks import corners, perceptron

ENDLESS = """
import sys
from tests.end_to_end.test_killed_training import corners, trainer
trainer().fit((*corners(), 20), 10**9, checkpoint=sys.argv[1], every=1)
"""


def trainer() -> Trainer:
    return Trainer(
        perceptron, loss=SoftmaxCrossEntropy(), optimizer=Adam(0.01), backend="interpreter"
    )


def test_a_killed_fit_goes_on_from_its_last_step(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], env=environment)
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)  # it is within a step, or writes
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    killed, whole = trainer(), trainer()
    killed.load(path)
    steps = killed.steps
    assert steps > 0
    epochs = -(-steps // 10) + 1
    killed.fit((*corners(), 20), epochs)
    whole.fit((*corners(), 20), epochs)
    assert killed.steps == whole.steps > steps
    for name, weight in whole.weights.items():
        np.testing.assert_array_equal(killed.weights[name], weight)
