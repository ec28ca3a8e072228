"""Class runtimes on Holdfast's own workers: children are service jobs of this very coordinator."""
