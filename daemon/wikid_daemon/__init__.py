"""The wikid daemon: indexes vaults and answers recall. Only `wikid_client` is for other programs."""
