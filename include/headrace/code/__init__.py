"""User code: how functions run, where they come from, and the processes that isolate them."""
