"""What does a small causal transformer write after it has read Python's own reference?

The text is that of ``help()``: some hundred thousand characters on the language, which ship with
every Python. The network sees 64 characters and says which comes after each of them; a tenth of the
text, which it never sees, tells how well. Afterwards it writes on from a few words::

    python -m experiments.training.text --steps 600 --prompt "The statement"
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pydoc_data import topics

import numpy as np

import glow_nb
from experiments.arguments import thread_count
from experiments.networks.trainable_layers import Layers
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Gather
from glow_nb.train import AdamW, OneCycle, SoftmaxCrossEntropy, Trainer

TOKENS, WIDTH, HEADS, LAYERS, BATCH = 64, 128, 4, 2, 32
MOST_CHARACTERS = 400_000


@dataclass(frozen=True)
class Text:
    """A text as numbers.

    Attributes:
        alphabet: Its characters, in order.
        numbers: The place of each character of the text in the alphabet.
    """

    alphabet: str
    numbers: Array

    def encoded(self, text: str) -> list[int]:
        """Return *text* as numbers, without what the alphabet does not have."""
        return [self.alphabet.index(letter) for letter in text if letter in self.alphabet]


def python_reference() -> Text:
    """Return the text of ``help()`` on all topics."""
    text = "\n".join(topics.topics[name] for name in sorted(topics.topics))[:MOST_CHARACTERS]
    text = "".join(letter for letter in text if letter.isascii())
    alphabet = "".join(sorted(set(text)))
    places = {letter: index for index, letter in enumerate(alphabet)}
    return Text(alphabet, np.array([places[letter] for letter in text]))


def network(batch: int, letters: int) -> Function:
    """Embeddings of letters and places, causal layers, and the scores of the next letter."""
    b = Layers("writer")
    read = b.input("read", f"int64<{batch} x {TOKENS}>")
    x: Value = b.emit(Gather(b.normal("letters", (letters, WIDTH), 0.05), read))
    x = b.emit(Add(x, b.normal("places", (1, TOKENS, WIDTH), 0.05)))
    for layer in range(LAYERS):
        x = b.block(f"layers.{layer}", x, HEADS)
    b.save(b.dense("next", b.normalized("last", x), letters, 0.5), "scores")
    return b.function()


def windows(numbers: Array, count: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield *count* batches of windows of a text at random places, and the letters after each."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        places = random.integers(0, len(numbers) - TOKENS - 1, BATCH)
        lines = numbers[places[:, None] + np.arange(TOKENS + 1)]
        yield lines[:, :-1], lines[:, 1:]


def train(text: Text, steps: int, threads: int | None) -> tuple[Trainer, list[float], float]:
    """Return the trainer, the losses of its steps, and that of the unseen tenth of the text."""
    letters = len(text.alphabet)
    trainer = Trainer(
        lambda batch: network(batch, letters),
        loss=SoftmaxCrossEntropy(axis=-1),
        optimizer=AdamW(OneCycle(4e-3, steps), weight_decay=0.05, clip_norm=1.0),
        threads=threads,
    )
    cut = len(text.numbers) * 9 // 10
    losses = []
    for step, (read, after) in enumerate(windows(text.numbers[:cut], steps, seed=0), 1):
        losses.append(trainer.step(read, after))
        if step % 100 == 0:
            print(f"step {step}: loss {np.mean(losses[-100:]):.3f}", flush=True)
    return trainer, losses, trainer.evaluate(windows(text.numbers[cut:], 10, seed=1))["loss"]


def write(trainer: Trainer, text: Text, prompt: str, count: int, seed: int = 0) -> str:
    """Return *prompt* and *count* characters that the network puts after it."""
    network_of_one = glow_nb.compile(trainer.freeze(np.zeros((1, TOKENS), np.int64)))
    random = np.random.default_rng(seed)
    written = text.encoded(prompt) or [0]
    for _ in range(count):
        seen = written[-TOKENS:]
        read = np.zeros((1, TOKENS), np.int64)
        read[0, : len(seen)] = seen
        scores = network_of_one.run(read)["scores"][0, len(seen) - 1].astype(np.float64) / 0.7
        chances = np.exp(scores - scores.max())
        written.append(int(random.choice(len(chances), p=chances / chances.sum())))
    return "".join(text.alphabet[number] for number in written)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--prompt", default="The statement")
    parser.add_argument("--count", type=int, default=600, help="characters to write")
    parser.add_argument("--threads", type=thread_count)
    given = parser.parse_args(arguments)
    text = python_reference()
    print(f"{len(text.numbers)} characters, {len(text.alphabet)} different ones")
    began = time.perf_counter()
    trainer, _, loss = train(text, given.steps, given.threads)
    seconds = time.perf_counter() - began
    bits = loss / np.log(2)
    print(f"{given.steps} steps in {seconds:.1f} s; the unseen text: {bits:.2f} bits a letter")
    print(write(trainer, text, given.prompt, given.count))


if __name__ == "__main__":
    main()
