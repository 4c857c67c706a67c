"""What proposes tokens for the target to check, and how many are worth checking.

`base` is what a drafter is.
"""
