"""Campaigns of several stores joined, renamed, put aside and removed. Nothing here runs while a campaign writes."""
