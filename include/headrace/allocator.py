"""Bounds what the allocators of delta-rs and Arrow keep. Imported before both, which read this once."""

import os
from typing import Final

DELTA: Final = "_RJEM_MALLOC_CONF"
ARROW: Final = "MIMALLOC_ALLOW_THP"
# delta-rs has up to hundreds of threads. With an arena for some of them and a cache for each, what they keep grows with commits.
os.environ.setdefault(DELTA, "narenas:2,tcache:false,dirty_decay_ms:1000")
# Arrow asks Linux for pages of 2 MB, each of which stays whole for the sake of a few small buffers: after 40,000 commits it held
# 120 MB for 5 MB, and with pages of the usual size 10 MB. Computing on large tables takes up to a tenth more CPU time without.
os.environ.setdefault(ARROW, "0")
