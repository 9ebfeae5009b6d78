"""The wikid daemon: indexes vaults and answers recall. Only `wikid_client` is for other programs."""

import os

# ONNX Runtime collects and sends usage data unless this is set before it is first imported; people's notes are private
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
