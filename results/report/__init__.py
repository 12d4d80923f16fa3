"""Drawings of a campaign's summary: a web page, a table for terminals, and JSON."""
