"""What a curious server can compute from the messages it is sent, given the public recipe."""
