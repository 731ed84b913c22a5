"""What generators write kernel source with: text, loops, vectors, shares of the threads."""
