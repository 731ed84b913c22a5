"""Operator stacking (paper 5.2): several data-parallel instructions as one pass over memory."""
