"""Campaigns and boards while they are at work, as other processes write them down."""
