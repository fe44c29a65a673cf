"""Analysis of the crystallization law: exact results where they exist, otherwise bounds and labelled approximations.

Start with `Crystallization`. `recommend` finds parameters for `Tasks`; `design` turns `Requirements` into parameters of
the paper's rule. Needs SciPy; nothing here is on the hot path.
"""

from crystalrl.packages import require

require("crystalrl.theory", "scipy", extra="theory")

from crystalrl.theory.covering import Covering, covering, value_error_bound
from crystalrl.theory.finite_volume import Evolution, Options
from crystalrl.theory.fluctuations import CorrelationTimes, Fluctuation, Mixture
from crystalrl.theory.forgetting import Forgetting
from crystalrl.theory.law import Crystallization
from crystalrl.theory.recommended import Recommended, Tasks, recommend
from crystalrl.theory.sizing import Contents, Design, Requirements, Thresholds, design, selectivity
from crystalrl.theory.stationary import Occupancy, Stationary
from crystalrl.theory.transient import Answer

__all__ = [
    "Answer",
    "Contents",
    "CorrelationTimes",
    "Covering",
    "Crystallization",
    "Design",
    "Evolution",
    "Fluctuation",
    "Forgetting",
    "Mixture",
    "Occupancy",
    "Options",
    "Recommended",
    "Requirements",
    "Stationary",
    "Tasks",
    "Thresholds",
    "covering",
    "design",
    "recommend",
    "selectivity",
    "value_error_bound",
]
