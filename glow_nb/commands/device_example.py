"""What the help of commands with ``--devices`` shows: a file of devices."""

from __future__ import annotations

DEVICE_EXAMPLE = """\

# devices.yaml
devices:
  - name: fast  # all other keys may be left out
    kind: process  # or local, ray, interpreter, simulated
    cores: 2
    memory: 2GiB
    multiply_adds_per_second: 100e9
    memory_bytes_per_second: 20e9
    link: {bytes_per_second: 10e9, latency_seconds: 20e-6}
  - name: slow
    count: 2  # slow0 and slow1
    memory: 500MB"""
