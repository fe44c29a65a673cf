"""Random operations of a state machine of Hypothesis, without Hypothesis: it would take most of the time.

The rules of the machines in tests/memory are the operations; the values come from an ordinary random generator.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine
from hypothesis.strategies import SearchStrategy

OFTEN = {"add": 3, "sample": 3, "update": 3}
"""How often these rules are chosen; the others have 1."""


class Data:
    """What a rule gets for `st.data()`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def draw(self, strategy: SearchStrategy[Any]) -> Any:
        return drawn(strategy, self.rng)


def drawn(strategy: Any, rng: random.Random) -> Any:
    """A value of one of the strategies that the machines use."""
    strategy = getattr(strategy, "wrapped_strategy", strategy)
    kind = type(strategy).__name__
    if kind == "IntegersStrategy":
        return rng.randint(strategy.start, strategy.end)
    if kind == "BooleansStrategy":
        return rng.random() < 0.5
    if kind == "SampledFromStrategy":
        return rng.choice(strategy.elements)
    if kind == "FloatStrategy":
        return rng.uniform(strategy.min_value, strategy.max_value)
    if kind == "MappedStrategy":
        return strategy.pack(drawn(strategy.mapped_strategy, rng))
    if kind == "JustStrategy":
        return strategy.value
    if kind == "ListStrategy":
        size = rng.randint(strategy.min_size, int(strategy.max_size))
        return [drawn(strategy.element_strategy, rng) for _ in range(size)]
    if kind == "DataStrategy":
        return Data(rng)
    raise TypeError(f"strategy: wanted one that is known here, got {strategy!r}")


def begin(machine: RuleBasedStateMachine, rng: random.Random) -> None:
    """Run the initialisation of a machine."""
    for rule in machine._initialize_rules_to_run:
        _call(machine, rule, rng)


def operate(machine: RuleBasedStateMachine, rng: random.Random) -> tuple[str, int]:
    """Run a random rule whose preconditions hold, then check the invariants.

    Returns the rule's name and the operations that it made: `add` adds several steps.
    """
    possible = [rule for rule in _listed(machine.rules) if all(holds(machine) for holds in rule.preconditions)]
    rule = rng.choices(possible, [OFTEN.get(rule.function.__name__, 1) for rule in possible])[0]
    name = rule.function.__name__
    try:
        count = _call(machine, rule, rng).get("count", 1)
        for invariant in _listed(machine.invariants):
            invariant.function(machine)
    except BaseException as error:
        error.add_note(f"in {name}")
        raise
    return name, count


def _listed(rules: Any) -> list[Any]:
    """Older versions of Hypothesis have methods here."""
    found: list[Any] = rules() if callable(rules) else rules
    return found


def _call(machine: RuleBasedStateMachine, rule: Any, rng: random.Random) -> dict[str, Any]:
    values = {name: drawn(strategy, rng) for name, strategy in rule.arguments.items()}
    rule.function(machine, **values)
    return values
