"""Small sequences of user-defined tasks, with real environments."""

from crystalrl.suites.tasks import Sequence, Task

CART = Task("cart", "CartPole-v1", low=20.0, high=500.0)
OWN = Sequence(
    [
        CART,
        Task("car", "MountainCar-v0", {"max_episode_steps": 60}, low=-200.0, high=-110.0, steps=240),
        Task("cart again", "CartPole-v1", physics={"length": 0.8}, low=20.0, high=500.0, id="cart"),
    ]
)
"""CartPole, MountainCar for fewer steps, and CartPole redefined: task ids 0, 1, 0."""
SMALL = {"steps": 480, "capacity": 256, "batch": 32, "episodes": 2, "points": 2, "agent_params": {"width": 16}}
FILE = """
hidden = true
[[tasks]]
name = "cart"
make = "CartPole-v1"
random = 20
human = 500.0
[[tasks]]
make = "tests.suites.own_environments:Echo"
options = { size = 3, length = 7 }
wrappers = ["tests.suites.own_environments:Plus"]
success = true
steps = 240
flip = true
[[tasks]]
id = 7
make = "CartPole-v1"
physics = { length = 0.8, gravity = 12 }
high = 500
"""
