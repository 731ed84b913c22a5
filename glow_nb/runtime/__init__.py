"""Networks on many devices (paper section 6): partitioned, provisioned, executed, served."""
