"""The tests. Several run at a time, so that each of NumPy's products takes one core."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported, also by children
