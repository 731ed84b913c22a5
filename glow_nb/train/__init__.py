"""Training: losses, optimizers, schedules of their rates, and the trainer.

It imports `network` and what stands below that.

::

    from glow_nb.train import Adam, SoftmaxCrossEntropy, Trainer

    trainer = Trainer("digits.onnx", loss=SoftmaxCrossEntropy(), optimizer=Adam(1e-3))
    history = trainer.fit((images, labels, 64), epochs=10)
    network = glow_nb.compile(trainer.freeze())
"""

from glow_nb.train.batches import Batches
from glow_nb.train.fitting import Epoch, History
from glow_nb.train.losses import (
    Huber,
    Loss,
    MeanSquaredError,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
)
from glow_nb.train.optimizers import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from glow_nb.train.schedules import Constant, Cosine, OneCycle, Schedule, StepDecay, WarmUp
from glow_nb.train.trainer import Trainer

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Batches",
    "Constant",
    "Cosine",
    "Epoch",
    "History",
    "Huber",
    "Loss",
    "MeanSquaredError",
    "OneCycle",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
    "StepDecay",
    "Trainer",
    "WarmUp",
]
