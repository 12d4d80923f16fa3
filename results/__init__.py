"""Records of what was tried and measured, and what they say: stores, statistics, best schedules, reports.

Needs no TVM, so that all of it works on any machine that has the file.
"""
