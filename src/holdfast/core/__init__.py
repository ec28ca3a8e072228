"""What is true, and what may follow from it. Pure: no clock, no dice, no disk, no wire."""
