"""What sessions have in common, wherever they run."""
