"""Programs for this repository's own tests and demonstrations."""
