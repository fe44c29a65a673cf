"""What the test suites of other libraries assert of a replay buffer, in our own words, for every buffer we offer.

One file per topic. `subjects.py` gives the memories and the buffers of the integrations one interface.
"""
