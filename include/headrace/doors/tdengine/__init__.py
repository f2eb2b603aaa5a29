"""The door `tdengine`: TDengine's REST interface and its schemaless writing, over HTTP."""
