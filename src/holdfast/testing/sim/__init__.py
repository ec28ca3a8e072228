"""A whole cluster in one thread, from one seed: the real coordinator, log and workers, on machines,
a network and a disk that fail as a plan says. The same seed gives the same run, to the byte."""

from holdfast.testing.sim.outcome import Outcome
from holdfast.testing.sim.plan import Fault, Scenario
from holdfast.testing.sim.simulation import Simulation, simulate

__all__ = ["Fault", "Outcome", "Scenario", "Simulation", "simulate"]
