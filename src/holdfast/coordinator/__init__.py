"""The one writer of history: it decides, appends, applies, and only then lets an answer leave."""
