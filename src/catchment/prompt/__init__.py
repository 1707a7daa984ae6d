"""Reservoir prompts: what a sensor's reservoir has seen steers a frozen language model."""
