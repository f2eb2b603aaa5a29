"""Plugins of users as stages of pipes: each calls an instance in a code host."""
