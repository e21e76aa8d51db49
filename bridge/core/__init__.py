"""The pure core: it decides, and does no I/O. No await, clock, random, log or environment in here."""
