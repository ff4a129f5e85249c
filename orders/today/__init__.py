"""Today: exact counts of work, activity since the last look, the hand-over of a shift."""
