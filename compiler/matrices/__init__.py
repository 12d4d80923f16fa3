"""Products of matrices that are both computed: layers of the templates whose weights are packed when the model runs."""
