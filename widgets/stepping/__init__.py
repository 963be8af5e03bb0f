"""An exchange held at each message, and how it is shown."""
