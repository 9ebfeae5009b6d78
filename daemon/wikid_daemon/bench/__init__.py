"""Measures wikid against the bare engines (`speed`) and against human judgements (`quality`). Run as a module."""
