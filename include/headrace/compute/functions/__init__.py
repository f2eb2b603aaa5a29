"""What functions are, whatever the language: how each kind of entry of a language's table is declared."""
