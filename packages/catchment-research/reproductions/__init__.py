"""The papers' tables, their networks, tasks and data; run from a clone, installed by nobody."""
