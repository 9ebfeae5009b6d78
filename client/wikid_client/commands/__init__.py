"""The sub-commands. Each module has `configure_<command>(parser)`, for its arguments and the function to run."""
