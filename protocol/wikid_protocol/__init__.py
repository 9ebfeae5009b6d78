"""wikid on the wire: records, methods, envelopes, errors and the endpoint. Needs only orjson, does no IO of its own."""

__version__ = "0.1.0"
