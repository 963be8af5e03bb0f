"""An exchange that is held at each message, and how it is shown."""
