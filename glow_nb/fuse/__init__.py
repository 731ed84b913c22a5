"""Operator stacking (paper 5.2): several data-parallel instructions as one pass over memory.

``stack_instructions`` is the pass that finds what may run together, ``loop_body`` and
``expression`` are what one such loop becomes. Which kernels can be the head of a stack is the
business of a backend.
"""
