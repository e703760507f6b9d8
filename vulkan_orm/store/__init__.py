"""Statements, built and never executed here; what differs between databases is in dialects/."""
