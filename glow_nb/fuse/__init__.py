"""Operator stacking: which instructions share a kernel or a loop, and what that loop becomes.

It imports `llir` and what stands below that.

``stack_instructions`` is the pass that finds what may run together, ``loop_body`` and
``expression`` are what one such loop becomes. Which kernels can be the head of a stack is the
business of a backend.
"""
