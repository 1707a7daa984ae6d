"""Search over recipes by validation clients."""
