"""The kernel of attention: scores of a block of keys, a running softmax, sums of values."""
