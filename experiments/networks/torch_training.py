"""The networks of ``experiments.networks.training`` in PyTorch, and a process that trains them.

It knows nothing of glow_nb, so that it runs in an environment of its own::

    python experiments/networks/torch_training.py FOLDER

reads ``FOLDER/task.json`` and the arrays beside it, makes the steps whose losses are compared, and
then measures a step for as many seconds as each line of standard input says.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional


def _perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def _digits() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.f1, self.f2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        q, k, v = (
            part(x).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = self.n1(x + self.o(mixed.transpose(1, 2).reshape(batch, tokens, width)))
        return self.n2(x + self.f2(functional.gelu(self.f1(x))))


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 256)
        self.places = nn.Parameter(torch.zeros(1, 64, 256))
        self.layers = nn.ModuleList(_Layer(256, 4) for _ in range(4))
        self.head = nn.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        x = self.words(x) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride > 1
            else None
        )

    def forward(self, x: Any) -> Any:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(x)) + shortcut)


class _ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        widths = (64, 64, 128, 256, 512)
        for stage in range(1, 5):
            first = _Residual(widths[stage - 1], widths[stage], 1 if stage == 1 else 2)
            second = _Residual(widths[stage], widths[stage], 1)
            setattr(self, f"layer{stage}", nn.Sequential(first, second))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


class _Mobile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn0 = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.grouped, self.gn = nn.Conv2d(16, 32, 3, 2, 1, groups=4), nn.GroupNorm(4, 32)
        self.pointwise, self.head = nn.Conv2d(32, 64, 1), nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        x = functional.hardswish(self.bn0(self.stem(x)))
        x = functional.silu(self.bn1(self.depthwise(x)))
        x = functional.gelu(self.gn(self.grouped(x)))
        x = functional.avg_pool2d(functional.relu(self.pointwise(x)), 2)
        return self.head(x.mean((2, 3)))


MODULES = {
    "mlp": _perceptron,
    "lenet": _digits,
    "encoder": _Encoder,
    "resnet18": _ResNet18,
    "mobile": _Mobile,
}


def main() -> None:
    """Train as the task says, and answer."""
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    torch.set_num_threads(task["threads"])
    module = MODULES[task["network"]]()
    with np.load(folder / "weights.npz") as weights:
        state = {name: torch.from_numpy(weights[name]) for name in weights.files}
    module.load_state_dict(state, strict=False)
    with np.load(folder / "data.npz") as arrays:
        data = [
            (torch.from_numpy(arrays[f"x{i}"]), torch.from_numpy(arrays[f"t{i}"]))
            for i in range(task["batches"])
        ]
    if task["channels_last"]:
        module = module.to(memory_format=torch.channels_last)
        data = [(x.to(memory_format=torch.channels_last), t) for x, t in data]
    optimizer = torch.optim.SGD(module.parameters(), task["rate"], task["momentum"])

    def step(x: Any, t: Any) -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(x), t)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    losses = [step(x, t) for x, t in data]
    with torch.no_grad():
        outputs = module.eval()(data[0][0]).numpy()
    module.train()
    np.save(folder / "torch.npy", outputs)
    print(json.dumps(losses), flush=True)
    for line in sys.stdin:
        times: list[float] = []
        end = time.perf_counter() + float(line)
        while time.perf_counter() < end or not times:
            began = time.perf_counter()
            step(*data[0])
            times.append(time.perf_counter() - began)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
