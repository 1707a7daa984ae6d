"""Random convolutions: MiniRocket and Hydra in whole numbers."""
