"""Talk to wikid."""
