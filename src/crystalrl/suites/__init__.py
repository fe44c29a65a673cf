"""Task suites: navigation on the learner's device, and classic control through Gymnasium."""
