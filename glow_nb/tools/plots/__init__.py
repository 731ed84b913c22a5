"""Pictures of what the compiler made; they need the extra ``plot``."""
