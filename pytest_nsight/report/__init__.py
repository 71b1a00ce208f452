"""How a finished session is shown: one file for each form, all of them `render(result) -> str` and pure."""
