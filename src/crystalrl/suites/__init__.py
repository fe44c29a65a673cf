"""Task suites: navigation on the training device, and environments through Gymnasium."""
