"""Random bytes for everything that reads bytes from outside: only named errors, in bounded memory and time."""
