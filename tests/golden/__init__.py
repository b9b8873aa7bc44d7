"""Golden results: what the program decides, recorded before a refactoring and compared after it."""
