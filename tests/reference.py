"""The three classical memories again: one Python object per experience, plain loops, nothing clever.

A twin is what the library must agree with, slot by slot and number by number. It shares only the pure functions that
hash four integers into a random number, so that draws can be compared one by one. Every lane is a twin of its own:
that lanes do not mix is not assumed, it is what the comparison shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crystalrl.backends.splitmix import mix_int
from crystalrl.random import Stream, lane_key

GOLDEN = 0x9E3779B97F4A7C15


def unit(start: int, element: int) -> float:
    """The element-th number in [0, 1) of the sequence that begins at `start`."""
    return (mix_int(start + (element + 1) * GOLDEN) >> 11) * 2.0**-53


def uniforms(seed: int, stream: Stream, tick: int, size: int) -> list[float]:
    """What a lane draws from a stream at a tick."""
    start = mix_int(lane_key(seed, stream) + (tick + 1) * GOLDEN)
    return [unit(start, element) for element in range(size)]


@dataclass(frozen=True, eq=False)
class Experience:
    """What a slot holds. Two experiences are the same only if they are the same object."""

    obs: Any
    action: Any
    reward: np.float32
    next_obs: Any
    discount: np.float32
    context: int | None


@dataclass(frozen=True)
class Step:
    """One step of one environment."""

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool
    context: int | None = None


@dataclass
class Windows:
    """The n-step windows of one environment: the steps of each, oldest window first."""

    n: int
    gamma: float
    open: list[list[Step]] = field(default_factory=list)

    def push(self, step: Step) -> list[Experience]:
        """The experiences that a step completes, oldest first."""
        for window in self.open:
            window.append(step)
        self.open.append([step])
        if step.terminated or step.truncated:
            return self.flush()
        if len(self.open[0]) == self.n:
            return [self._close(self.open.pop(0))]
        return []

    def flush(self) -> list[Experience]:
        """Close all windows where the last step left off."""
        closed = [self._close(window) for window in self.open]
        self.open = []
        return closed

    def _close(self, window: list[Step]) -> Experience:
        reward = 0.0
        for k, step in enumerate(window):
            reward += self.gamma**k * float(np.float32(step.reward))
        first, last = window[0], window[-1]
        discount = 0.0 if last.terminated else self.gamma ** len(window)
        return Experience(
            first.obs, first.action, np.float32(reward), last.next_obs, np.float32(discount), first.context
        )


class Twin:
    """One lane of a memory: windows, a dict of experiences by slot, a clock. Subclasses place and draw."""

    def __init__(self, capacity: int, seed: int, envs: int = 1, n_step: int = 1, gamma: float = 0.99) -> None:
        self.capacity, self.seed, self.n_step = capacity, seed, n_step
        self.windows = [Windows(n_step, gamma) for _ in range(envs)]
        self.slots: dict[int, Experience] = {}
        self.number = 0
        self.time = 0
        self.tick = 0

    def add(self, steps: list[Step], valid: list[bool]) -> list[list[int]]:
        """Slots written, one row of n per environment; −1 where nothing was."""
        self.time += sum(valid)
        closed = [w.push(step) if ok else [] for w, step, ok in zip(self.windows, steps, valid, strict=True)]
        return last_of_each([self._keep(experiences) for experiences in closed])

    def end_episode(self, ended: list[bool]) -> list[list[int]]:
        closed = [w.flush() if over else [] for w, over in zip(self.windows, ended, strict=True)]
        return last_of_each([self._keep(experiences) for experiences in closed])

    def _keep(self, experiences: list[Experience]) -> list[int]:
        slots = []
        for experience in experiences:
            slot = self.place()
            if slot >= 0:
                self.slots[slot] = experience
                self.stored(slot)
            slots.append(slot)
        return slots + [-1] * (self.n_step - len(slots))

    def sample(self, size: int) -> tuple[list[int], list[float]]:
        """Slots drawn and their weights."""
        numbers = uniforms(self.seed, Stream.DRAW, self.tick, size)
        self.tick += 1
        return self.draw(numbers)

    def clear(self) -> None:
        """Forget experiences; clock and random numbers go on."""
        self.slots = {}
        self.number = 0
        for window in self.windows:
            window.open = []

    def place(self) -> int:
        raise NotImplementedError

    def stored(self, slot: int) -> None:
        pass

    def draw(self, numbers: list[float]) -> tuple[list[int], list[float]]:
        raise NotImplementedError

    def ticket(self, slots: list[int]) -> list[Any]:
        """What the slots hold now: the twin of a batch's ticket."""
        return [self.slots[slot] for slot in slots]

    def update(self, slots: list[int], td_errors: list[float], ticket: list[Any] | None = None) -> None:
        pass


def last_of_each(rows: list[list[int]]) -> list[list[int]]:
    """The slots that a call wrote; −1 for an experience that a later one of the same call replaced."""
    later: set[int] = set()
    for row in reversed(rows):
        for place in reversed(range(len(row))):
            slot = row[place]
            row[place] = -1 if slot in later else slot
            later.add(slot)
    return rows


class UniformTwin(Twin):
    """First in, first out; all equally likely."""

    def place(self) -> int:
        slot = self.number % self.capacity
        self.number += 1
        return slot

    def draw(self, numbers: list[float]) -> tuple[list[int], list[float]]:
        return [int(u * len(self.slots)) for u in numbers], [1.0] * len(numbers)


class PrioritizedTwin(UniformTwin):
    """First in, first out; drawn in proportion to (|δ| + ε)^α."""

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        beta: float = 0.4,
        is_steps: int | None = None,
        epsilon: float = 1e-6,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.alpha, self.beta, self.is_steps, self.epsilon = alpha, beta, is_steps, epsilon
        self.weights: dict[int, np.float32] = {}
        self.highest = np.float32(1)

    def stored(self, slot: int) -> None:
        self.weights[slot] = self.highest

    def draw(self, numbers: list[float]) -> tuple[list[int], list[float]]:
        order = sorted(self.slots)
        total = math.fsum(float(self.weights[slot]) for slot in order)
        slots = [self._find(u * total, order) for u in numbers]
        beta = self.beta
        if self.is_steps is not None:
            beta += (1 - self.beta) * min(1.0, self.time / self.is_steps)
        raw = [(len(order) * float(self.weights[slot]) / total) ** -beta for slot in slots]
        return slots, [w / max(raw) for w in raw]

    def _find(self, rest: float, order: list[int]) -> int:
        before = 0.0
        for slot in order:
            before += float(self.weights[slot])
            if rest < before:
                return slot
        raise AssertionError("a number in [0, 1) lies within the total")

    def update(self, slots: list[int], td_errors: list[float], ticket: list[Any] | None = None) -> None:
        """Skips a slot whose experience is no longer the one that was drawn."""
        for slot, td_error, drawn in zip(slots, td_errors, ticket or self.ticket(slots), strict=True):
            if self.slots.get(slot) is drawn:
                magnitude = float(np.float32(abs(td_error)))
                self.weights[slot] = np.float32((magnitude + self.epsilon) ** self.alpha)
                self.highest = max(self.highest, self.weights[slot])

    def clear(self) -> None:
        super().clear()
        self.weights, self.highest = {}, np.float32(1)


class ReservoirTwin(Twin):
    """The newest `window` experiences, and a uniform sample of those that were once in that window."""

    def __init__(self, *args: Any, recent: float = 0.5, recent_batch: float = 0.5, **options: Any) -> None:
        super().__init__(*args, **options)
        self.window, self.recent_batch = round(recent * self.capacity), recent_batch
        self.recent: list[int] = []
        self.reserved: list[int] = []

    def place(self) -> int:
        """Where the newcomer goes: the slot that the reservoir or the window gives up for it, or −1."""
        number = self.number
        self.number += 1
        if number < self.window:
            self.recent.append(number)
            return number
        leaver = self.recent[number % self.window] if self.window else None
        slot = self._offer(number, leaver)
        if self.window:
            self.recent[number % self.window] = slot
        return slot

    def _offer(self, number: int, leaver: int | None) -> int:
        """Offer what leaves the window (without a window, the new experience) to the reservoir; the slot freed."""
        older = number - self.window
        room = self.capacity - self.window
        if older < room:
            self.reserved.append(number if leaver is None else leaver)
            return number
        seat = int(unit(lane_key(self.seed, Stream.PLACE), number) * (older + 1))
        if seat >= room:
            return -1 if leaver is None else leaver
        freed = self.reserved[seat]
        if leaver is not None:
            self.reserved[seat] = leaver
        return freed

    def draw(self, numbers: list[float]) -> tuple[list[int], list[float]]:
        share = round(self.recent_batch * len(numbers))
        if not self.reserved:
            share = len(numbers)
        if not self.recent:
            share = 0
        slots = []
        for k, u in enumerate(numbers):
            pool = self.recent if k < share else self.reserved
            slots.append(pool[int(u * len(pool))])
        return slots, [1.0] * len(numbers)

    def clear(self) -> None:
        super().clear()
        self.recent, self.reserved = [], []


TWINS = {"UniformMemory": UniformTwin, "PrioritizedMemory": PrioritizedTwin, "ReservoirMemory": ReservoirTwin}
