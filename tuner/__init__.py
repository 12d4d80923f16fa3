"""Campaigns: search, cost models, builds and the command line."""
