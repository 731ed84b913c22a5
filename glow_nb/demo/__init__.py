"""The demonstration: ResNet50 with seeded weights looks at a photograph (``make demo``)."""
