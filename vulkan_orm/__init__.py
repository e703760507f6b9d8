"""Durable messaging inside the database an application already has."""
