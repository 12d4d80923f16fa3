"""The farm: which board measures which trial, what an answer is worth, and which board may be believed.

All but `driver`, `journal` and `boards` is pure: events and the time go in, entries for the journal and commands to
boards come out.
"""
