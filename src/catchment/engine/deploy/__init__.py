"""A real Flower deployment: keys, the proxy before the SuperLink, and all its processes."""
