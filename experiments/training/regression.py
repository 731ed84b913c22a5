"""Does a trained network foretell better than a straight line?

The data are the 442 patients of scikit-learn's diabetes set: ten measurements of each, and how far
the disease had gone a year later. A network of two layers is trained on four of five parts and
asked about the fifth, for each of the five; so is linear regression by least squares. The share of
the variance that is explained, and what was foretold beside what came, are drawn::

    python -m experiments.training.regression --output out
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.networks.trainable_layers import Layers
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Relu
from glow_nb.train import AdamW, Cosine, Huber, Trainer

PARTS, BATCH = 5, 32


def network(batch: int) -> Function:
    """Ten numbers, 32 and 16 of which are made, and one."""
    b = Layers("progression")
    x: Value = b.input("patients", f"float32<{batch} x 10>")
    for name, width in (("first", 32), ("second", 16)):
        x = b.emit(Relu(b.dense(name, x, width)))
    b.save(b.dense("last", x, 1, 0.1), "progression")
    return b.function()


def load_patients() -> tuple[Array, Array]:
    """Return measurements ``[442, 10]`` and progressions ``[442, 1]``, in a fixed random order."""
    from sklearn import datasets

    patients = datasets.load_diabetes()
    order = np.random.default_rng(0).permutation(len(patients.target))
    measured, came = patients.data[order], patients.target[order, None]
    return measured.astype(np.float32), came.astype(np.float32)


def standardized(rows: Array, known: Array) -> Array:
    """Return *rows* in standard deviations of *known* from their mean, column by column."""
    scaled: Array = (rows - known.mean(0)) / known.std(0)
    return scaled


def trained(measured: Array, came: Array, epochs: int) -> Trainer:
    """Return a trainer that has learnt *came* from *measured*, both standardized."""
    rate = Cosine(3e-3, epochs * (len(came) // BATCH))
    trainer = Trainer(network, loss=Huber(), optimizer=AdamW(rate, weight_decay=0.3))
    trainer.fit((measured, came, BATCH), epochs)
    return trainer


def by_network(measured: Array, came: Array, asked: Array, epochs: int) -> Array:
    """Return what a network that is trained on *measured* and *came* foretells of *asked*."""
    trainer = trained(standardized(measured, measured), standardized(came, came), epochs)
    found = trainer.predict(standardized(asked, measured))["progression"]
    foretold: Array = found * came.std() + came.mean()
    return foretold


def by_least_squares(measured: Array, came: Array, asked: Array) -> Array:
    """Return what a straight line through *measured* and *came* foretells of *asked*."""
    with_one = [np.hstack([rows, np.ones((len(rows), 1))]) for rows in (measured, asked)]
    slopes, *_ = np.linalg.lstsq(with_one[0], came, rcond=None)
    foretold: Array = with_one[1] @ slopes
    return foretold


def explained(foretold: Array, came: Array) -> float:
    """Return the share of the variance that is explained: 1 is all of it."""
    return 1 - float(np.sum((came - foretold) ** 2) / np.sum((came - came.mean()) ** 2))


def folds(count: int) -> Iterator[tuple[Array, Array]]:
    """Yield, for each of the parts of *count* patients, the places of all others and its own."""
    places = np.arange(count)
    for part in np.array_split(places, PARTS):
        yield np.setdiff1d(places, part), part


def foretell(epochs: int) -> tuple[Array, dict[str, Array]]:
    """Return what came, and what each model has foretold of all patients, unseen by it."""
    measured, came = load_patients()
    found: dict[str, list[Array]] = {"network": [], "least squares": []}
    for rest, part in folds(len(came)):
        known = measured[rest], came[rest], measured[part]
        found["network"].append(by_network(*known, epochs))
        found["least squares"].append(by_least_squares(*known))
    return came, {name: np.concatenate(parts) for name, parts in found.items()}


def draw(came: Array, foretold: dict[str, Array], path: Path) -> None:
    """Draw what was foretold beside what came to a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from glow_nb.network.pictures.style import BLUE, INK, frame, own_style

    with own_style():
        figure = Figure(figsize=(10, 5.2), layout="constrained")
        FigureCanvasAgg(figure)
        most = 1.05 * max(came.max(), *(numbers.max() for numbers in foretold.values()))
        for axes, (name, numbers) in zip(figure.subplots(1, 2), foretold.items(), strict=True):
            axes.scatter(came, numbers, s=12, alpha=0.6, color=BLUE, linewidth=0, label="a patient")
            axes.plot([0, most], [0, most], color=INK, lw=1, ls="--", label="exact prediction")
            axes.set(xlabel="progression after a year", ylabel="predicted progression")
            axes.set(xlim=(0, most), ylim=(0, most), aspect="equal")
            axes.set_title(f"{name}: {explained(numbers, came):.1%} of the variance explained")
            frame(axes)
            axes.legend(frameon=False, loc="upper left")
        figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Foretell all patients and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--output", type=Path, default=Path("out"))
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    came, foretold = foretell(given.epochs)
    for name, numbers in foretold.items():
        print(f"{name:14s} explains {explained(numbers, came):.1%} of the variance")
    draw(came, foretold, given.output / "regression.png")
    print(f"wrote {given.output / 'regression.png'}")


if __name__ == "__main__":
    main()
