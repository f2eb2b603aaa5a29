"""Names by which calls of the functions of a module are described to code hosts."""

from __future__ import annotations

from typing import Final

OUTPUT_TYPE: Final = "output type"
"""The attribute of a call that has the type of its values."""
BUFFER_SIZE: Final = "buffer size"
"""The attribute of a call of an aggregate that has the largest size of its state in bytes."""
SCALAR: Final = "@scalar"
AGGREGATE: Final = "@aggregate"
