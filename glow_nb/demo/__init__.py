"""The demonstration: a trained network reads handwritten digits (``make demo``)."""
