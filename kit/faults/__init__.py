"""Points where tests let a task fail, and the history that they check."""
