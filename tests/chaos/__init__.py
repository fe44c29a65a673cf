"""The reliability campaign: attacks on the library, each repeated many times, with the outcome of every attempt."""
