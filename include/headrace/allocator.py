"""Bounds what the allocator of delta-rs keeps. Imported before delta-rs is, which reads this once."""

import os
from typing import Final

VARIABLE: Final = "_RJEM_MALLOC_CONF"
# delta-rs has up to hundreds of threads. With an arena for some of them and a cache for each, what they keep grows with commits.
os.environ.setdefault(VARIABLE, "narenas:2,tcache:false,dirty_decay_ms:1000")
