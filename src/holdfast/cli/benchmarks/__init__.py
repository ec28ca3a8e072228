"""What `holdfast bench` measures: one module a row, each run in a process of its own."""
