"""How several snodes share the jobs of a catalog: a new one takes its share, and those of a dead one move to the others.

A job belongs to the snode in its record. A driver gives jobs away once it has stopped them, and takes those of a dead snode, whose
driver may only be frozen: the epoch of the lease that takes a job is newer than that under which the other one has run, so that its
commits fail as soon as the job has been restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.catalog.processes import has_ended
from headrace.catalog.snodes import FIRST
from headrace.model.job_parts import whole_id

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.model.jobs import JobRecord
    from headrace.model.snodes import Lease, Member


@dataclass(frozen=True, slots=True)
class Moves:
    """The jobs that an snode should take from dead ones, by id with their owner, and those to give, with their receiver."""

    take: Mapping[str, str] = field(default_factory=dict)
    give: Mapping[str, str] = field(default_factory=dict)


def plan_moves(own: str, alive: Sequence[str], owners: Mapping[str, str], fixed: Collection[str] = ()) -> Moves:
    """Return what an snode should take and give so that all that are alive, itself included, have equal numbers of jobs.

    All snodes come to the same plan from the same facts. Jobs of dead snodes are dealt first, and no job moves without need. Of
    several parts of a stream one stays as long as possible, and the others leave first. `owners` has the owner of each job, `fixed`
    the jobs that cannot move now.
    """
    counts = Counter(dict.fromkeys(alive, 0))
    counts.update(owner for owner in owners.values() if owner in counts)
    room = quotas(counts, len(owners))
    room.subtract(counts)
    orphans = sorted(job for job, owner in owners.items() if owner not in counts)
    receivers = [name for _, name in sorted((turn, name) for name in room for turn in range(max(0, room[name])))]
    if orphans:
        return Moves(take={job: owners[job] for job, name in zip(orphans, receivers, strict=False) if name == own})
    givers = [name for name in sorted(room) for _ in range(max(0, -room[name]))]
    mine = [receiver for giver, receiver in zip(givers, receivers, strict=False) if giver == own]
    owned = sorted(job for job, owner in owners.items() if owner == own)
    parts, first = Counter(map(whole_id, owned)), {whole_id(job): job for job in reversed(owned)}

    def reluctance(job: str) -> int:
        return 1 if parts[whole_id(job)] == 1 else 2 * (first[whole_id(job)] == job)

    jobs = sorted((job for job in owned if job not in fixed), key=reluctance)
    return Moves(give=dict(zip(jobs, mine, strict=False)))


def quotas(counts: Counter[str], total: int) -> Counter[str]:
    """Return how many jobs each snode should have; those that have most keep one more if the division leaves a rest."""
    least, rest = divmod(total, len(counts))
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return Counter({name: least + (number < rest) for number, name in enumerate(ordered)})


def is_alive(lease: Lease | None, now: int) -> bool:
    """Return True if an snode has a driver: its lease has not expired, and no sign shows that its process has ended."""
    return lease is not None and lease.is_valid(now) and not has_ended(lease.holder)


def port_of(snode: str, members: Sequence[Member], port: int) -> int:
    """Return the port of an snode's endpoint: members that share a machine have consecutive ports, if the first is fixed."""
    dnode = next((member.dnode for member in members if member.name == snode), FIRST)
    return port + dnode - FIRST if port else 0


@dataclass(frozen=True, slots=True)
class SharedJobs:
    """The members that share jobs, the leases of those that have one, and the jobs of all, at one moment."""

    members: tuple[str, ...]
    leases: Mapping[str, Lease]
    records: Mapping[str, JobRecord]
    now: int

    def moves(self, own: str) -> Moves:
        """Return what an snode that is alive should take and give."""
        if own not in self.members:
            return Moves()
        alive = {name for name, lease in self.leases.items() if is_alive(lease, self.now)} | {own}
        owners = {job: record.definition.snode for job, record in self.records.items()}
        # A job stays where it is during its backfill: its snode does that itself if the history is short.
        fixed = {job for job, record in self.records.items() if not record.is_live and record.definition.sources}
        return plan_moves(own, sorted(alive), owners, fixed)

    def newest_epoch(self, jobs: Mapping[str, str]) -> int:
        """Return the newest epoch under which the owners of some jobs may have run them."""
        return max((self.leases[owner].epoch for owner in jobs.values() if owner in self.leases), default=0)


def read_shared_jobs(catalog: Catalog) -> SharedJobs | None:
    """Read what is shared; None if there are no snodes to share with."""
    members = tuple(member.name for member in catalog.members.all())
    if len(members) < 2:
        return None
    leases = {name: lease for name in members if (lease := catalog.leases.get(name)) is not None}
    records = {record.definition.id: record for record in catalog.jobs.parts() if record.definition.snode in members}
    return SharedJobs(members, leases, records, catalog.now())
