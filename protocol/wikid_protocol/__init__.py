"""wikid on the wire."""
