"""The trained part: ridge statistics that add up, their solution, and what is read from it."""
