"""The `holdfast` command. Only here are all the parts put together for a terminal."""
