"""The farm: which board measures which trial, what an answer is worth, and which board may be believed.

Everything here is pure: events and the time go in, entries for the journal and commands to boards come out.
"""
