"""HTTP over a served coordinator: one table of routes, and what each of them answers.

Functions that answer know no framework: they take a `Call` and return an `Answer`. Only `app` knows
how requests arrive.
"""
