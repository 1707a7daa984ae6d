"""Sequences and clients: where data enters, and nothing else."""
