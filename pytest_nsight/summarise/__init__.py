"""What the processes of a run left behind becomes one summary per subject. Pure."""
