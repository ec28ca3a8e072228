"""Runs leased tasks and says how they ended. It holds no authority of its own."""
