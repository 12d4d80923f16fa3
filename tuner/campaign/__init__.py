"""Campaigns: what is tuned, with which budget, and the loop that does it."""
