"""A catchment plan as a Flower app."""
