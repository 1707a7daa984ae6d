"""What an attacker gets out of a message, measured."""
