"""The subcommands of ``glow-nb``, one file each, and what they share."""
