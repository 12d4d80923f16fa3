"""TVM's MetaSchedule as a peer of the search: the same layers, trials, cores and oracle, one after the other."""
