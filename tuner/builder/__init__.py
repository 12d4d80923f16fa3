"""Builds: candidates become programs, in processes that may die."""
