"""Networks that answer requests: provisioner, executor and host manager (paper section 6)."""
