"""A run's folder: written, read, explained."""
