"""What is wrong with the arguments of an experiment is one message."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from experiments.arguments import thread_count


def test_an_error_of_glow_nb_ends_a_run_with_its_message() -> None:
    command = (sys.executable, "-m", "experiments.benchmarks.growing_caches", "nowhere.onnx")
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.startswith("Error: nowhere.onnx: cannot be read")
    assert "Traceback" not in run.stderr


def test_threads_are_a_whole_number_from_one_on() -> None:
    assert thread_count("3") == 3
    for text in ("0", "-1", "two", "9999"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"{text}: give a whole number from 1"):
            thread_count(text)
