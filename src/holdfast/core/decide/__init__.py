"""`decide(state, command, now)`: what a command would make true. Pure: nothing moves here.

One file a family of commands. Time is an argument, chance comes in the command, no is an answer,
and a repeat adds no fact.
"""

from holdfast.core.decide.dispatch import DECIDERS, decide

__all__ = ["DECIDERS", "decide"]
