"""A model of a whole system by discrete events, calibrated by measured costs and checked against points that it was not.

How it is built:

1. The costs are those of `headrace size` (`headrace/cli/sizing/costs.toml`), which computes by formulas what this simulates.
   `tests/benchmarks/test_capacity.py` has both agree over a grid of devices, streams, snodes, catalogs and storages.
2. A *table* has a lock. Its clients commit at a fixed cadence. A commit takes the lock, and of the snode that they write to (a
   *door*) the interpreter's lock for its share of CPU time, in slices of 5 ms as Python's.
3. A *driver* has an interpreter's lock, and turns: one micro-batch at a time on a disk, eight on an object store, first come first
   served. A *stream* waits for news of its table, then for a turn, and holds it until its results are committed.
4. The first stream of a driver at an offset reads what is new up to then; the others at this offset get the same rows.
5. A micro-batch costs its rows, the windows that they touch, a checkpoint, two statements in the catalog, and a commit if it has
   results: always with AT_ONCE, at the ends of windows with WINDOW_CLOSE. On an object store it also waits for requests.
6. The *catalog* is one writer at a time in SQLite, and four cores in PostgreSQL. Each snode writes its lease and heartbeat, and
   looks at all of its jobs once a second, which takes its interpreter's lock.
7. Of many drivers four are simulated: they are alike. What they share is as much slower as they are fewer.
8. The result is the median time from a commit until the last stream has committed what follows from it.
9. State in memory, the maintenance of logs and the start of streams by Airflow do not queue: they are products of costs and counts,
   which only the formulas have.
10. `calibration.py` measures the costs at a few sizes. `checks.py` measures points at other sizes and combinations, and
    compares them with the simulation. `python -m benchmarks capacity` does both, `python -m benchmarks.capacity` prints the costs.

What it leaves out: the disk as a shared resource, networks between machines, two long micro-batches side by side, garbage
collection, queries, backfills, pipes, and updates of rows.
"""
