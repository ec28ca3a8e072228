"""Where work should go. Pure: a frozen snapshot comes in, a plan or an explanation comes out."""
