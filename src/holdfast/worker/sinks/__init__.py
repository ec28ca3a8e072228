"""The sinks: each a way to make an effect happen, behind one port."""
