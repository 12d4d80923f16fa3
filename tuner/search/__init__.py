"""Which configs a campaign tries, and in which order."""
