"""Federated training: one plan, one round loop, any algorithm whose messages add up."""
