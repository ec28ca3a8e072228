"""What users import: marking functions, opening a coordinator, holding on to results."""
