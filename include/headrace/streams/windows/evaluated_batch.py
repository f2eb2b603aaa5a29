"""The windows after a micro-batch, before it is decided which of them to write."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.streams.windows.accounting import BatchCount
from headrace.streams.windows.change_batch import Int64s


@dataclass(frozen=True)
class EvaluatedBatch:
    """The windows after a micro-batch.

    Attributes:
        windows: The windows that the batch touched or recalculated.
        state_windows: The windows in state that were merged into them.
        unaffected: The windows in state that belong to a recalculated partition but stay as they are.
        possibly_emitted: Recalculated windows that the target may have although they are not in state.
        recalculated: The number of recalculated scopes.
        count: The batch's rows by outcome.
        deferred_rows: The indexes of the batch's rows that only mark windows.
    """

    windows: pa.Table
    state_windows: pa.Table
    unaffected: pa.Table
    possibly_emitted: pa.Table
    recalculated: int
    count: BatchCount
    deferred_rows: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
