"""Models as C99 for small devices: one file and its header, without malloc."""
