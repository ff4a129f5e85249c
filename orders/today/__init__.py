"""Today: exact counts of work, new activity since the user's last look, the hand-over of a shift.
"""
