"""Today: exact counts of work, what happened since one last looked, the hand-over of a shift."""
