"""Records as lines of styled spans, one module for each kind of answer. Pure."""
