"""`wikid demo`: a tour with a private daemon on a temporary copy of the sample vault beside this file.

It is a user of the whole program, so unlike the rest of the daemon it talks through `wikid_client` and prints with it.
"""
