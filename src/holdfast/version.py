"""The one place that says which version this is; the build reads it from here."""

VERSION = "0.1.0"
