"""Searches without a device: whole spaces that were measured once are replayed, and strategies race on them."""
