"""crystalrl inside other libraries. Each module needs its library; nothing is imported here."""
