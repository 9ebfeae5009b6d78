"""How bytes of a connection become calls: peer check, framing, a session per client (protocol, Endpoint, framing)."""
