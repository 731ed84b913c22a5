"""Planning: a network is cut into parts, and each gets a device (the partitioner, section 6)."""
