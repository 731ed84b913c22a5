"""The steps of the compiler by name, the pipelines as data, and the driver that runs them.

It imports `fuse` and what stands below that.
"""
