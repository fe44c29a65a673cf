"""Agents of other libraries with their own buffers and with ours: do they learn as well, and what does it cost?

One module per library says how to train (the examples do it) and how to take one gradient step; the rest is shared.
"""
