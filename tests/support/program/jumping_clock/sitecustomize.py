"""In `PYTHONPATH`: the time of day is another day at each look, in every process of ours."""

import random
import time

_true = time.time
_rng = random.Random(0)
time.time = lambda: _true() + 86_400 * _rng.choice((-1, 0, 1))
