"""Thin loops that run the user's functions. No arithmetic and no SQL lives here."""
