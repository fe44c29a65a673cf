"""How slots are drawn: the sum tree, priorities, strata."""
