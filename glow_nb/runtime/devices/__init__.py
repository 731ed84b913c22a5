"""The devices: threads of this process, other processes, actors of Ray, and simulated ones."""
