"""The secure sum: messages of which the server sees only the sum."""
