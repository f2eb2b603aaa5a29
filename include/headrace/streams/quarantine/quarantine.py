"""The quarantine of one stream: what its micro-batches set aside, and what they process again.

Rows in quarantine stay in the source, but no read of the stream's source returns them, so recalculated windows do not have them
either. Which rows are in quarantine is recorded in the catalog with the number of the micro-batch, after its checkpoint and before
its results, and undone by a driver that restarts before that micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.context import Context
from headrace.errors import Error, TerminalError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobCounters
from headrace.model.positions import Position
from headrace.model.quarantine import QuarantineChange, QuarantineCode, QuarantinedRow, QuarantineRequest, RowKey
from headrace.model.streams import ErrorPolicy
from headrace.storage.set_aside import SetAside
from headrace.streams.batches import BatchResult, Processor
from headrace.streams.definition.define import StreamPlan
from headrace.streams.quarantine.changed_rows import RemainingChanges, json_values, row_keys, set_aside
from headrace.streams.quarantine.due_rows import due_rows, is_due, without_due
from headrace.streams.quarantine.failing_rows import Budget, FailingRows, value_error
from headrace.streams.quarantine.large_commits import (
    KeyReasons,
    Reason,
    divide_commit,
    is_divisible,
    keys_ahead,
    parts_of,
    reasons_of_rows,
)
from headrace.streams.quarantine.limits import ahead_message, has_later_rows, later_rows, latest_allowed, own_rows
from headrace.streams.quarantine.trial import Attempt, Trial
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.change_batch import VERSION, Bools, Changes, Int64s, LargeCommit

NO_ROWS: Final = pa.table({})
Reasons = Mapping[int, Reason]
"""For each row of a batch to set aside, why."""


class QuarantineFullError(TerminalError, code="QUARANTINE_FULL"):
    """A stream has as many rows in quarantine as it may have."""


class Quarantine:
    """Computes the micro-batches of a stream without the rows that have to be set aside.

    `held` has the rows that the stream leaves out, `dropped` those of them that are no longer in quarantine, since the user has
    dropped them. The runner's context shares `held`.
    """

    def __init__(self, context: Context, plan: StreamPlan, processor: Callable[[Context, StreamPlan], Processor]) -> None:
        assert context.set_aside is not None
        self.context = context
        self.plan = plan
        self.held: SetAside = context.set_aside
        self.dropped: frozenset[RowKey] = frozenset()
        self._create = processor
        self._recorded: dict[tuple[RowKey, int], Reason] | None = None

    @cached_property
    def processor(self) -> Processor:
        return self._create(self.context, self.plan)

    @cached_property
    def replaying(self) -> Processor:
        """The processor of rows that are processed again: late ones belong to their windows, which the user has asked for."""
        if self.plan.is_closed_by_clock:
            return self.processor
        return self._create(self.context, replace(self.plan, options=replace(self.plan.options, ignore_expired=False)))

    def restore(self, position: Position) -> None:
        """Load the rows that were left out after a micro-batch, and undo what later ones have changed."""
        recorded, batch = self.context.catalog.quarantine, position.batch
        rows = recorded.rows(self.plan.id, with_released=True)
        if any(max(row.batch, row.released or 0, row.dropped or 0) > batch for row in rows):
            recorded.rewind(self.plan.id, batch, self.context.epoch or None)
        self._load(rows, batch)

    def _load(self, rows: Iterable[QuarantinedRow], batch: int) -> None:
        """Leave out what was left out after a micro-batch."""
        held = [row for row in rows if row.is_held_after(batch)]
        self.held.set(row.key for row in held)
        self.dropped = frozenset(row.key for row in held if row.is_dropped_after(batch))

    @contextmanager
    def recovering(self, batch: int) -> Iterator[None]:
        """Set aside what was set aside after a micro-batch, and then the same rows again, while the block runs."""
        rows, before = self.context.catalog.quarantine.rows(self.plan.id, with_released=True), (self.held.rows.keys, self.dropped)
        is_replayed = [row.requested is QuarantineRequest.REPLAY and row.released is not None for row in rows]
        self._recorded = {
            (row.key, row.version): (row.code, row.message) for row, replayed in zip(rows, is_replayed, strict=True) if not replayed
        }
        self._load(rows, batch)
        try:
            yield
        finally:
            self._recorded = None
            self.held.set(before[0])
            self.dropped = before[1]

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        """Compute a micro-batch. Its result says what changes in quarantine."""
        attempt = Attempt(self.processor, state, changes, self.held.rows.keys)
        if changes.tags_version is not None:  # without the rows in quarantine, since no read of the source has them
            return self._compute_all(attempt)
        if self._recorded is not None:
            return self._process_again(attempt, self._recorded)
        if changes.large is not None:
            return self._process_large(attempt, changes.large)
        return self._process(attempt, self._reasons_ahead(changes))

    def replay(self, state: StreamState, changes: Changes, keys: Sequence[RowKey]) -> BatchResult:
        """Compute a micro-batch of rows that were in quarantine, as inserted rows. Those that still fail return to it."""
        rows = changes.rows.num_rows
        attempt = Attempt(self.replaying, state, changes, self.held.rows.keys - frozenset(keys))
        result = self._process(attempt, self._reasons_ahead(changes))
        counters = result.state.counters
        counters = replace(counters, rows_in=counters.rows_in - rows, rows_quarantined=counters.rows_quarantined - rows)
        change = replace(result.quarantine or QuarantineChange(), released=tuple(keys))
        return replace(result, state=replace(result.state, counters=counters), quarantine=change)

    def drop(self, state: StreamState) -> BatchResult | None:
        """Return a micro-batch that removes the rows from quarantine that the user wants to drop; None if there are none."""
        rows = self.context.catalog.quarantine.rows(self.plan.id)
        keys = tuple(row.key for row in rows if row.requested is QuarantineRequest.DROP and row.dropped is None)
        if not keys:
            return None
        before = state.counters
        quarantined, dropped = before.rows_quarantined - len(keys), before.rows_dropped + len(keys)
        moved = replace(state, counters=replace(before, rows_quarantined=quarantined, rows_dropped=dropped))
        return BatchResult(NO_ROWS, NO_ROWS, moved, state.wake_at, quarantine=QuarantineChange(dropped=keys))

    def recount(self, state: StreamState) -> StreamState:
        """Return a state that was computed again with the rows counted that micro-batches without changes set aside or dropped."""
        rows = self.context.catalog.quarantine.rows(self.plan.id)
        dropped = sum(row.dropped is not None for row in rows)
        return replace(state, counters=counters_with(state.counters, len(rows) - dropped, dropped))

    def commit(self, change: QuarantineChange | None, batch: int, now: int, oldest: int) -> None:
        """Record what a micro-batch has changed; `oldest` is the first one that has a checkpoint."""
        if not change:
            return
        change = replace(change, added=tuple(replace(row, batch=batch, since=now) for row in change.added))
        self.context.catalog.quarantine.commit(self.plan.id, batch, change, self.context.epoch or None, oldest=oldest)
        failpoint("streams.quarantine.committed")
        self._record_event(change)
        self._apply(change)

    def _record_event(self, change: QuarantineChange) -> None:
        if change.dropped:
            self.context.catalog.events.record(
                "job", self.plan.id, "QUARANTINE_DROPPED", f"{count_text(len(change.dropped))} dropped"
            )
        if change.added:
            self.context.catalog.events.record("job", self.plan.id, "QUARANTINED", added_message(change.added))

    def _apply(self, change: QuarantineChange) -> None:
        released = frozenset(change.released)
        self.held.set((self.held.rows.keys - released) | {row.key for row in change.added})
        self.dropped = (self.dropped - released) | frozenset(change.dropped)

    def _process_again(self, attempt: Attempt, recorded: Mapping[tuple[RowKey, int], Reason]) -> BatchResult:
        """Compute a micro-batch that was computed before, and set aside the same rows."""
        large = attempt.changes.large
        if large is not None:
            rows = divide_commit(self.plan, large, {key for key, _ in recorded})[0] if recorded else pa.table({})
            written = self._recorded_rows(rows, recorded) if rows.num_rows else {}
            result = self._compute_large(attempt, large, {key: recorded[key, version] for key, version in written.values()})
        else:
            written = self._recorded_rows(attempt.changes.rows, recorded) if recorded else {}
            result = self._compute(attempt, {index: recorded[row] for index, row in written.items()})
        if result.quarantine:
            self._apply(result.quarantine)
        return result

    def _recorded_rows(self, rows: pa.Table, recorded: Collection[tuple[RowKey, int]]) -> dict[int, tuple[RowKey, int]]:
        written = np.flatnonzero(own_rows(self.plan, rows))
        own = rows.take(pa.array(written))
        keys = row_keys(own, self.plan.source, self.plan.query.precision)
        pairs = zip(written, zip(keys, own[VERSION].to_pylist(), strict=True), strict=True)
        return {int(index): row for index, row in pairs if row in recorded}

    def _latest_allowed(self, changes: Changes) -> tuple[int, Reason] | None:
        """Return the latest instant that a row may have, and the reason for later ones; None if there are none of these."""
        settings = self.context.settings
        latest = latest_allowed(self.plan, settings, changes.now)
        if latest is None or not has_later_rows(self.plan, changes, latest):
            return None
        return latest, (QuarantineCode.FUTURE, ahead_message(self.plan, settings))

    def _reasons_ahead(self, changes: Changes) -> Reasons:
        allowed = self._latest_allowed(changes)
        if allowed is None:
            return {}
        latest, reason = allowed
        return dict.fromkeys(np.flatnonzero(later_rows(self.plan, changes.rows, latest)).tolist(), reason)

    def _process_large(self, attempt: Attempt, commit: LargeCommit) -> BatchResult:
        reasons: dict[RowKey, Reason] = {}
        allowed = self._latest_allowed(attempt.changes)
        if allowed is not None:
            latest, reason = allowed
            max_keys = self.context.settings.quarantine_rows
            reasons = dict.fromkeys(keys_ahead(self.plan, commit, latest, max_keys), reason)
        self._check_room(attempt, reasons)
        try:
            return self._compute_large(attempt, commit, reasons)
        except Exception as error:
            if value_error(error) is None or self.plan.options.on_error is ErrorPolicy.STOP:
                raise
            if is_due(self.plan, attempt):
                return self._process_large(without_due(attempt), commit)
            reasons |= self._failing_keys(attempt, divide_commit(self.plan, commit, reasons)[1] if reasons else commit)
        self._check_room(attempt, reasons)
        try:
            return self._compute_large(attempt, commit, reasons)
        except Exception as error:
            if value_error(error) is None:
                raise
        # What fails only together with rows of other parts, such as a sum, is searched in all rows at once.
        attempt = attempt.with_rows()
        return self._process(attempt, reasons_of_rows(self.plan, attempt.changes.rows, reasons))

    def _failing_keys(self, attempt: Attempt, commit: LargeCommit) -> dict[RowKey, Reason]:
        reasons: dict[RowKey, Reason] = {}
        budget = Budget()
        for changes in parts_of(self.plan, commit, attempt.changes):
            part, rows = attempt.with_changes(changes), changes.rows
            own = own_rows(self.plan, rows)
            trial = Trial(self.plan, self.held, part if is_divisible(self.plan) else part.from_no_state(), own)
            max_rows = self.context.settings.quarantine_rows - len(reasons)
            errors = FailingRows(trial.compute, max_rows, budget).search(np.flatnonzero(own))
            keys = row_keys(rows.take(pa.array(list(errors), pa.int64())), self.plan.source, self.plan.query.precision)
            reasons |= {key: (QuarantineCode.DATA, error.message) for key, error in zip(keys, errors.values(), strict=True)}
        return reasons

    def _process(self, attempt: Attempt, reasons: Reasons) -> BatchResult:
        """Compute a micro-batch without the rows for which there are reasons, and those that turn out to fail."""
        self._check_room(attempt, reasons)
        try:
            return self._compute(attempt, reasons)
        except Exception as error:
            cause = value_error(error)
            if cause is None:
                raise
            if self.plan.options.on_error is ErrorPolicy.STOP:
                raise self._error_of_row(attempt, reasons, cause) from error
            if is_due(self.plan, attempt):
                return self._process_due(attempt, reasons, cause)
            attempt = attempt.with_rows()
            failing = self._failing_rows(attempt, reasons, cause)
            if not failing:
                raise
        reasons = {**reasons, **{row: (QuarantineCode.DATA, error.message) for row, error in failing.items()}}
        self._check_room(attempt, reasons)
        return self._compute(attempt, reasons)

    def _process_due(self, attempt: Attempt, reasons: Reasons, cause: Error) -> BatchResult:
        """Compute a micro-batch at a time at which windows are due, without the stored rows with which they cannot be computed.

        If it has changes, these are handled alone, and the windows by the next micro-batch.
        """
        if attempt.changes.count:
            return self._process(without_due(attempt), reasons)
        due = due_rows(self.context, self.plan, self.held, attempt)
        failing = () if due is None else due.failing(cause, self.context.settings.quarantine_rows)
        if not failing:
            raise cause
        self._check_room(attempt, {number: (row.code, row.message) for number, row in enumerate(failing)})
        result = self._compute(replace(attempt, held=attempt.held | {row.key for row in failing}), {})
        counters = result.state.counters
        counters = counters_with(counters, counters.rows_quarantined + len(failing), counters.rows_dropped)
        return replace(result, state=replace(result.state, counters=counters), quarantine=QuarantineChange(failing))

    def _compute(self, attempt: Attempt, reasons: Reasons) -> BatchResult:
        """Compute a micro-batch without the rows for which there are reasons."""
        if not reasons and not attempt.held:
            return self._compute_all(attempt)
        return self._compute_remaining(attempt, attempt.changes.rows, reasons)

    def _compute_large(self, attempt: Attempt, commit: LargeCommit, keys: KeyReasons) -> BatchResult:
        if not keys and (not attempt.held or commit.inserted is not None):  # none of the new rows is in quarantine
            return self._compute_all(attempt)
        touched, others = divide_commit(self.plan, commit, {*keys, *attempt.held})
        if touched.num_rows == 0:
            return self._compute_all(attempt)
        return self._compute_remaining(attempt, touched, reasons_of_rows(self.plan, touched, keys), others)

    def _compute_all(self, attempt: Attempt) -> BatchResult:
        with self.held.changed(attempt.held):
            return attempt.processor.process_batch(attempt.state, attempt.changes)

    def _compute_remaining(
        self, attempt: Attempt, rows: pa.Table, reasons: Reasons, others: LargeCommit | None = None
    ) -> BatchResult:
        """Compute a micro-batch without what is set aside.

        `rows` are its changes at the keys that are set aside now or were before, and maybe others; `others` is the rest of a large
        commit.
        """
        remaining = set_aside(rows, mask(rows, reasons), attempt.held, self.plan.source, self.plan.query.precision)
        if others is not None and remaining.rows.num_rows:
            others = replace(others, others=remaining.rows, inserted=None)
        with self.held.changed(remaining.held):
            changes = replace(attempt.changes, source=remaining.rows if others is None else others)
            result = attempt.processor.process_batch(attempt.state, changes)
        dropped = len(self.dropped.intersection(remaining.released))
        counters = counters_after(result.state.counters, remaining, len(reasons), dropped)
        change = QuarantineChange(self._rows(rows, remaining, reasons), remaining.released)
        return replace(result, state=replace(result.state, counters=counters), quarantine=change)

    def _rows(self, rows: pa.Table, remaining: RemainingChanges, reasons: Reasons) -> tuple[QuarantinedRow, ...]:
        """Return the rows that are set aside, with the values that they have at last."""
        indexes = {key: index for key, index in remaining.held.items() if index is not None}
        if not indexes:
            return ()
        held = rows.take(pa.array(list(indexes.values()), pa.int64()))
        content = zip(json_values(held, self.plan.source), held[VERSION].to_pylist(), strict=True)
        return tuple(
            QuarantinedRow(key, version, *reasons[index], values)
            for (key, index), (values, version) in zip(indexes.items(), content, strict=True)
        )

    def _failing_rows(self, attempt: Attempt, reasons: Reasons, cause: Error) -> dict[int, Error]:
        candidates, trial = self._candidates(attempt, reasons)
        return FailingRows(trial.compute, self.context.settings.quarantine_rows).find(candidates, cause) if len(candidates) else {}

    def _candidates(self, attempt: Attempt, reasons: Reasons) -> tuple[Int64s, Trial]:
        """Return the rows that may fail, and what computes the micro-batch with some of them."""
        rows = attempt.changes.rows
        own = own_rows(self.plan, rows)
        return np.flatnonzero(own & ~mask(rows, reasons)), Trial(self.plan, self.held, attempt, own)

    def _error_of_row(self, attempt: Attempt, reasons: Reasons, cause: Error) -> Error:
        """Return the error of the first row that fails, which it names, for that of all rows."""
        if is_due(self.plan, attempt) or attempt.changes.large is not None:
            return cause
        candidates, trial = self._candidates(attempt, reasons)
        first = FailingRows(trial.compute, 1).first(candidates, cause) if len(candidates) else None
        if first is None:
            return cause
        index, error = first
        row = attempt.changes.rows.slice(index, 1)
        (key,), (values,) = row_keys(row, self.plan.source, self.plan.query.precision), json_values(row, self.plan.source)
        message = f"{error.message} (in the row of {key.series} at {values[self.plan.source.timestamp.name]})"
        return type(error)(message, hint=error.hint)

    def _check_room(self, attempt: Attempt, reasons: Reasons | KeyReasons) -> None:
        """Raise `QuarantineFullError` if there is no room for the rows to set aside."""
        most, held = self.context.settings.quarantine_rows, len(attempt.held - self.dropped)
        if not reasons or held + len(reasons) <= most:
            return
        code, message = next(iter(reasons.values()))
        raise QuarantineFullError(
            f"the quarantine of stream {self.plan.name} has room for {most} rows: it has {held}, and {len(reasons)} "
            f"more have to be set aside, the first because [{code}] {message}",
            hint="correct the rows that SHOW QUARANTINE lists, or the stream, or DROP QUARANTINE OF STREAM, or set "
            "HEADRACE_QUARANTINE_ROWS to a larger number; then RESUME STREAM",
        )


def count_text(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


def added_message(rows: Sequence[QuarantinedRow]) -> str:
    return f"{count_text(len(rows))} set aside, the first because [{rows[0].code}] {rows[0].message}"


def counters_with(counters: JobCounters, quarantined: int, dropped: int) -> JobCounters:
    """Return counters with other numbers of rows in quarantine and dropped. Rows that were set aside had been used before."""
    set_aside = quarantined + dropped - counters.rows_quarantined - counters.rows_dropped
    used = max(0, counters.rows_used - set_aside)
    return replace(
        counters,
        rows_in=counters.rows_in + set_aside - (counters.rows_used - used),
        rows_used=used,
        rows_quarantined=quarantined,
        rows_dropped=dropped,
    )


def counters_after(counters: JobCounters, remaining: RemainingChanges, added: int, dropped: int) -> JobCounters:
    """Return counters with rows that were set aside, and without those that left: corrected ones were replaced, like others.

    `dropped` is how many of those that left had been dropped before, and were not in quarantine.
    """
    return replace(
        counters,
        rows_in=counters.rows_in + added,
        rows_used=counters.rows_used + remaining.deleted,
        rows_updated=counters.rows_updated + remaining.corrected,
        rows_quarantined=counters.rows_quarantined + added - remaining.corrected - remaining.deleted + dropped,
        rows_dropped=counters.rows_dropped - dropped,
    )


def mask(rows: pa.Table, reasons: Reasons) -> Bools:
    masked = np.zeros(rows.num_rows, np.bool_)
    masked[list(reasons)] = True
    return masked
