"""Records of a team, in a PostgreSQL database."""
