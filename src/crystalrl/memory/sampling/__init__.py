"""How slots are drawn: samplers, the sum tree, priorities, strata."""
