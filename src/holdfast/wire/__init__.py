"""The messages workers and coordinators speak. Knows no transport and no policy."""
