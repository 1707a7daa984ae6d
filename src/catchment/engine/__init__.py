"""Engines carry messages between a server and its clients: in process, or over a network."""
