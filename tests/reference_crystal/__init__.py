"""The crystal memory again, from the specification: one Python object per experience, plain loops, nothing clever.

Algorithm 1 (consolidation) and Algorithm 2 (phase-aware draws) of the paper with the choices of `CrystalParams`. The
twin shares with the library only the pure functions that hash integers into random numbers. Every lane is a twin of
its own, so lanes that mix show up as a difference.
"""
