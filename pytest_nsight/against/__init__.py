"""Two trees of one repository, measured in alternation: the user's, and a git revision of it."""
