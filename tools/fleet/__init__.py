"""A Flower deployment of many processes on this machine, for tests and demonstrations."""
