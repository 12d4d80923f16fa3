"""Two sets of results beside each other: what each layer took before and after, and whether the change is real."""
