"""Declared services kept alive: what was observed comes in, what to do and what to say comes out.

Pure: no clock, no disk, no wire. Nothing here knows on which substrate the children run.
"""
