"""Clocks, disks and logs that obey a test. Shipped, so that users can test their jobs with them."""
