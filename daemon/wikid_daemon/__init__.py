"""The wikid daemon: indexes vaults and answers recall. Only `wikid_client` is for other programs."""

import os

# ONNX Runtime collects and sends usage data unless this is set before it is first imported; people's notes are private
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
# what is left to numpy is small: its own threads would only wait for each other, 12 ms a rerank instead of 7
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
