"""Notifications: window events of a stream, as messages to WebSocket servers."""
