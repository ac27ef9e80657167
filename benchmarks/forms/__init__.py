"""Workloads that run several forms of one job in one session, in turn, over files that they write."""
