"""Task suites: navigation on the training device, with separate or drifting tasks, and Gymnasium environments."""
