"""What a campaign's records say beyond its layers' times, computed before anything of it is drawn."""
