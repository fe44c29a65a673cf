"""Tables, figures and pages from stored results; nothing here trains or measures."""
