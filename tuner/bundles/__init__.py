"""Campaigns on devices that can't be reached: bundles go there, results come home, round by round."""
