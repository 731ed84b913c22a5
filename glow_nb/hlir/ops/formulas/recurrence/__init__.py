"""Recurrent layers: what one step of a cell computes, said once for all that need it."""
